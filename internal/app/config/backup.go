package config

import (
	"strconv"
	"strings"
	"time"

	"steward/internal/backup"
	"steward/internal/blob"
)

// backupTarget parses a directory or an s3:// URL, which has no credentials.
func backupTarget(v string) (string, error) {
	if !strings.Contains(v, "://") {
		return filePath(v)
	}
	if _, err := blob.ParseS3URL(v); err != nil {
		return "", mustBe("a directory, or a URL such as s3://bucket/prefix?endpoint=https://host")
	}
	return v, nil
}

// minBackupInterval is the shortest interval between backups.
const minBackupInterval = time.Minute

// backupSchedule parses an interval, or a time of day in UTC.
func backupSchedule(v string) (backup.Schedule, error) {
	if at, err := time.Parse("15:04", strings.TrimSuffix(v, " UTC")); err == nil {
		return backup.Schedule{At: time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute}, nil
	}
	every, err := duration(v)
	if err != nil || every < minBackupInterval {
		return backup.Schedule{}, mustBe("a duration from 1m on, such as 24h, or a time of the day in UTC, such as 03:00")
	}
	return backup.Schedule{Every: every}, nil
}

func backupKeep(v string) (int, error) {
	n, err := integer(v, 1, maxBackups, "a number from 1 to "+strconv.Itoa(maxBackups))
	return int(n), err
}

// maxBackups is the maximum for --backup-keep: while we remove an old backup, we keep a file open
// for each.
const maxBackups = 365

// backupRecipients parses age recipients, separated by commas. It returns one on each line.
func backupRecipients(v string) (string, error) {
	var all []string
	for item := range strings.SplitSeq(v, ",") {
		e := backup.Encryption{Recipients: strings.TrimSpace(item)}
		if !e.IsSet() || e.Check() != nil {
			return "", mustBe("age recipients separated by commas, such as age1…")
		}
		all = append(all, e.Recipients)
	}
	return strings.Join(all, "\n"), nil
}
