//! Files of rules and of maps.
#![no_main]

use lancegate_auth::{Channel, Claim, Rules, UserMaps};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (&str, &str, &str)| {
    let (text, user, database) = data;
    if let Ok(rules) = Rules::parse(text) {
        for (channel, address) in [(Channel::Local, None), (Channel::Tls, Some([10, 0, 0, 1].into()))] {
            let _ = rules.first(&Claim { channel, address, database, user, roles: &[] });
        }
    }
    if let Ok(maps) = UserMaps::parse(text) {
        let _ = maps.allows(Some(database), user, user);
    }
});
