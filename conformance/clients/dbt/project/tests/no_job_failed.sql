select job_id from system.public.jobs where state = 'failed'
