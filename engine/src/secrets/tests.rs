use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use lancegate_auth::{Grant, Object, RoleName, Subject, UserName};
use lancegate_catalog::{Database, Sealed};
use tempfile::TempDir;

use super::key::KeyFileError;
use super::*;

const CANARY: &str = "canary-hunter2-correct-horse";

struct Deployment {
    folder: TempDir,
    catalog: Catalog,
}

impl Deployment {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_sqlite(&folder.path().join("metadata.db")).await.unwrap();
        let database = Database { name: "db".to_owned(), location: "db".to_owned(), created_at: Utc::now() };
        catalog.create_database(database).await.unwrap();
        Self { folder, catalog }
    }

    fn key_file(&self) -> PathBuf {
        self.folder.path().join("secrets.key")
    }

    fn secrets(&self) -> Secrets {
        Secrets::new(self.catalog.clone(), KeyRing::open(&self.key_file(), false, 0).unwrap())
    }

    async fn grant(&self, subject: &str, privilege: Privilege, object: Object) {
        let subject: Subject = subject.parse().unwrap();
        self.catalog.grant(Grant { subject, privilege, object }).await.unwrap();
    }

    async fn record(&self, name: &SecretName) -> SecretRecord {
        self.catalog.secret(name).await.unwrap().unwrap()
    }

    /// Puts another sealed value in the place of a secret's.
    async fn plant(&self, name: &SecretName, version: u64, sealed: Sealed) {
        let before = self.record(name).await;
        let after = SecretRecord { version, sealed, ..before.clone() };
        assert!(self.catalog.exchange_secret(before, after).await.unwrap());
    }
}

fn named(name: &str) -> SecretName {
    SecretName { database: "db".to_owned(), namespace: Vec::new(), name: name.to_owned() }
}

fn value(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

/// The owner of everything in database `db`.
fn owner() -> Principal {
    Principal::user(UserName::parse("ada").unwrap())
}

fn owned_by_ada(name: &SecretName) -> Vec<ObjectChange> {
    let grant = |object| {
        let subject = Subject::User(UserName::parse("ada").unwrap());
        ObjectChange::Grant(Grant { subject, privilege: Privilege::Ownership, object })
    };
    vec![grant(Object::Database("db".to_owned())), grant(name.home()), grant(name.object())]
}

async fn create(secrets: &Secrets, name: &SecretName, text: &str) {
    secrets.create(name, &value(text), owned_by_ada(name)).await.unwrap();
}

async fn opened(secrets: &Secrets, name: &SecretName) -> Result<String, SecretError> {
    let mut values = secrets.resolve(&owner(), std::slice::from_ref(name)).await?;
    Ok(values.remove(0).expose().clone())
}

fn reason(result: Result<String, SecretError>) -> String {
    let error = result.expect_err("it opens");
    let shown = format!("{error:?} {error}");
    assert!(!shown.contains(CANARY), "{shown}");
    match error {
        SecretError::Seal { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

#[tokio::test]
async fn a_value_is_opened_as_it_was_given_and_sealed_anew_each_time() {
    let deployment = Deployment::new().await;
    let secrets = deployment.secrets();
    let (first, second) = (named("first"), named("second"));
    create(&secrets, &first, CANARY).await;
    create(&secrets, &second, CANARY).await;
    let (a, b) = (deployment.record(&first).await, deployment.record(&second).await);
    assert_ne!(a.sealed.text, b.sealed.text);
    assert_eq!((a.version, a.sealed.key_id.len()), (1, 16));
    for text in ["", "å\n\"'", &"x".repeat(VALUE_BYTES_MAX)] {
        secrets.alter(&first, &value(text)).await.unwrap();
        assert_eq!(opened(&secrets, &first).await.unwrap(), text);
    }
    assert_eq!(opened(&secrets, &second).await.unwrap(), CANARY);
    let changed = deployment.record(&first).await;
    assert_eq!((changed.version, changed.created_at), (4, a.created_at));
    assert!(changed.updated_at >= a.updated_at);

    let too_long = secrets.alter(&first, &value(&"x".repeat(VALUE_BYTES_MAX + 1))).await.unwrap_err();
    assert!(matches!(too_long, SecretError::TooLong(_)), "{too_long}");
    let nul = secrets.create(&named("third"), &value("a\0b"), Vec::new()).await.unwrap_err();
    assert!(matches!(nul, SecretError::Nul(_)), "{nul}");
    let missing = secrets.alter(&named("third"), &value("x")).await.unwrap_err();
    assert!(matches!(missing, SecretError::NotFound(_)), "{missing}");
}

#[tokio::test]
async fn a_record_that_was_changed_anywhere_does_not_open() {
    let deployment = Deployment::new().await;
    let secrets = deployment.secrets();
    let name = named("token");
    create(&secrets, &name, CANARY).await;
    let whole = deployment.record(&name).await.sealed;
    for index in 0..whole.text.len() {
        let mut bytes = whole.text.clone().into_bytes();
        bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
        let text = String::from_utf8(bytes).unwrap();
        deployment.plant(&name, 1, Sealed { text, ..whole.clone() }).await;
        let why = reason(opened(&secrets, &name).await);
        assert!(why.starts_with("its stored value is damaged"), "byte {index}: {why}");
    }
    for text in ["", "1:", "1:AAAA", "no form", "1:…", &whole.text[..whole.text.len() - 4]] {
        deployment.plant(&name, 1, Sealed { text: text.to_owned(), ..whole.clone() }).await;
        let why = reason(opened(&secrets, &name).await);
        assert!(why.starts_with("its stored value is damaged"), "{text:?}: {why}");
    }
    deployment.plant(&name, 1, Sealed { text: whole.text.replacen("1:", "2:", 1), ..whole.clone() }).await;
    assert_eq!(reason(opened(&secrets, &name).await), "its stored value has a form of newer software");
    deployment.plant(&name, 1, whole).await;
    assert_eq!(opened(&secrets, &name).await.unwrap(), CANARY);
}

#[tokio::test]
async fn a_value_opens_under_its_own_name_and_version_only() {
    let deployment = Deployment::new().await;
    let secrets = deployment.secrets();
    let (mine, yours) = (named("mine"), named("yours"));
    create(&secrets, &mine, "my value").await;
    create(&secrets, &yours, CANARY).await;
    let (my_value, your_value) = (deployment.record(&mine).await.sealed, deployment.record(&yours).await.sealed);
    // Two rows are swapped.
    deployment.plant(&mine, 1, your_value.clone()).await;
    deployment.plant(&yours, 1, my_value.clone()).await;
    for name in [&mine, &yours] {
        let why = reason(opened(&secrets, name).await);
        assert!(why.contains("moved here from another secret"), "{why}");
    }
    // An earlier value is put back under the version of a later one.
    deployment.plant(&mine, 2, my_value.clone()).await;
    reason(opened(&secrets, &mine).await).find("damaged").unwrap();
    deployment.plant(&mine, 1, my_value).await;
    assert_eq!(opened(&secrets, &mine).await.unwrap(), "my value");

    // Parts of a name cannot be shifted from one to the next.
    let keys = KeyRing::open(&deployment.key_file(), true, 0).unwrap();
    let path = |database: &str, namespace: &[&str], name: &str| SecretName {
        database: database.to_owned(),
        namespace: namespace.iter().map(|part| (*part).to_owned()).collect(),
        name: name.to_owned(),
    };
    let sealed = keys.seal(&path("db", &["a", "b"], "c"), 1, &value(CANARY)).unwrap();
    for other in
        [path("db", &["ab"], "c"), path("db", &["a"], "bc"), path("dba", &["b"], "c"), path("db", &["a", "b"], "C")]
    {
        assert!(matches!(keys.open_sealed(&other, 1, &sealed), Err(SealError::Tampered)), "{other}");
    }
    keys.open_sealed(&path("db", &["a", "b"], "c"), 1, &sealed).unwrap();
}

#[tokio::test]
async fn usage_is_decided_anew_each_time_and_a_closed_way_hides_the_secret() {
    let deployment = Deployment::new().await;
    let secrets = deployment.secrets();
    let (token, other) = (named("token"), named("other"));
    create(&secrets, &token, CANARY).await;
    create(&secrets, &other, "other").await;
    let mut bob = Principal::user(UserName::parse("bob").unwrap());
    let names = [other.clone(), token.clone()];
    let refused = async |bob: &Principal| reason(secrets.resolve(bob, &names).await.map(|_| String::new()));

    assert_eq!(refused(&bob).await, "secret \"other\" does not exist");
    deployment.grant("P:bob", Privilege::Usage, Object::Database("db".to_owned())).await;
    assert_eq!(refused(&bob).await, "secret \"other\" does not exist");
    deployment.grant("P:bob", Privilege::Usage, token.home()).await;
    assert_eq!(refused(&bob).await, "permission denied for secret other");
    deployment.grant("P:bob", Privilege::Usage, other.object()).await;
    // UPDATE rotates a secret and does not open it.
    deployment.grant("P:bob", Privilege::Update, token.object()).await;
    assert_eq!(refused(&bob).await, "permission denied for secret token");
    deployment.grant("r:ops", Privilege::Usage, token.object()).await;
    assert_eq!(refused(&bob).await, "permission denied for secret token");
    bob.roles.insert(RoleName::parse("ops").unwrap());
    let values = secrets.resolve(&bob, &names).await.unwrap();
    assert_eq!(values.iter().map(|value| value.expose().as_str()).collect::<Vec<_>>(), ["other", CANARY]);
    assert_eq!(format!("{values:?}"), "[<redacted>, <redacted>]");

    let subject: Subject = "r:ops".parse().unwrap();
    deployment.catalog.revoke(Grant { subject, privilege: Privilege::Usage, object: token.object() }).await.unwrap();
    assert_eq!(refused(&bob).await, "permission denied for secret token");
    assert_eq!(reason(opened(&secrets, &named("none")).await), "secret \"none\" does not exist");
    assert!(secrets.resolve(&bob, &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn keys_are_rotated_by_a_new_first_line() {
    let deployment = Deployment::new().await;
    let old = deployment.secrets();
    let name = named("token");
    create(&old, &name, CANARY).await;
    let before = deployment.record(&name).await;

    let file = deployment.key_file();
    let old_line = fs::read_to_string(&file).unwrap();
    let new_line = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
    fs::write(&file, format!("{new_line}\n# the old one\n{old_line}")).unwrap();
    let both = deployment.secrets();
    assert_eq!(opened(&both, &name).await.unwrap(), CANARY);
    assert_eq!(both.rotate().await.unwrap(), 1);
    assert_eq!(both.rotate().await.unwrap(), 0);
    let after = deployment.record(&name).await;
    assert_ne!(after.sealed.key_id, before.sealed.key_id);
    assert_eq!(after.updated_at, before.updated_at);

    fs::write(&file, new_line).unwrap();
    assert_eq!(opened(&deployment.secrets(), &name).await.unwrap(), CANARY);
    // With the old key alone it is read, refused, and left as it is.
    fs::write(&file, old_line).unwrap();
    let wrong = deployment.secrets();
    assert_eq!(wrong.rotate().await.unwrap(), 0);
    let expected = format!("it was sealed with key {}, which the key file does not have", after.sealed.key_id);
    assert_eq!(reason(opened(&wrong, &name).await), expected);
    assert_eq!(deployment.record(&name).await, after);
    // A new value makes it good again.
    wrong.alter(&name, &value("fresh")).await.unwrap();
    assert_eq!(opened(&wrong, &name).await.unwrap(), "fresh");
}

#[test]
fn a_missing_key_file_is_made_once_and_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state").join("secrets.key");
    let made = KeyRing::open(&file, false, 0).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    let again = KeyRing::open(&file, false, 7).unwrap();
    assert_eq!(made.current_id(), again.current_id());
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(format!("{made:?}"), format!("[{:?}]", made.current_id()));
    // Nothing is left beside it.
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);

    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(KeyRing::open(&link, true, 0).unwrap().current_id(), made.current_id());
}

#[test]
fn a_key_file_that_is_missed_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets.key");
    let chosen = refused(&file, true, 0);
    assert!(matches!(chosen, KeyFileError::Missing { secrets: 0, .. }), "{chosen}");
    assert!(chosen.to_string().contains("openssl rand -base64 32"), "{chosen}");
    let needed = refused(&file, false, 3);
    assert!(needed.to_string().contains("the values of 3 secrets cannot be read without it"), "{needed}");
    assert!(!file.exists());
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets.key");
    KeyRing::open(&file, false, 0).unwrap();
    for mode in [0o640, 0o604, 0o644, 0o620, 0o610, 0o601, 0o777] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let error = refused(&file, true, 0);
        assert!(matches!(error, KeyFileError::Exposed { .. }), "{mode:o}: {error}");
        assert!(error.to_string().contains(&format!("mode {mode:04o}")), "{error}");
    }
    for mode in [0o600, 0o400] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        KeyRing::open(&file, true, 0).unwrap();
    }
}

#[test]
fn a_file_that_is_no_key_file_is_refused_and_not_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets.key");
    let good = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let cases = [
        (format!("{good}\n{CANARY}\n"), "line 2 of "),
        (format!("# {good}\n\n"), "contains no key"),
        (String::new(), "contains no key"),
        ("AAEC\n".to_owned(), "line 1 of "),
        (format!("{}\n", &good[1..]), "line 1 of "),
        (format!("{good}{good}\n"), "line 1 of "),
        (format!("# {}\n{good}\n", "x".repeat(64 * 1024)), "is not a key file"),
    ];
    for (text, expected) in cases {
        fs::write(&file, &text).unwrap();
        let error = refused(&file, true, 0);
        let shown = format!("{error} {error:?}");
        assert!(error.to_string().contains(expected), "{shown}");
        assert!(!shown.contains(CANARY) && !shown.contains(good), "{shown}");
    }
    fs::write(&file, [0xff, 0xfe]).unwrap();
    assert!(matches!(refused(&file, true, 0), KeyFileError::Io { .. }));
    assert!(matches!(refused(folder.path(), true, 0), KeyFileError::NotAFile { .. }));
}

fn refused(file: &Path, chosen: bool, secrets: usize) -> KeyFileError {
    KeyRing::open(file, chosen, secrets).expect_err("it is used")
}
