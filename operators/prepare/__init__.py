"""What has to be found, read and packed before a job starts: settings, files, environments, models."""
