package backups

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"steward/internal/app/config"
	"steward/internal/backup"
	"steward/internal/cli/exit"
	"steward/internal/cli/session"
)

// secrets are the flags that choose which backup to read, and how backups are encrypted.
type secrets struct {
	ask            bool
	passphraseFile string
	recipients     []string
	identityFile   string
	archiveID      string // in a repository
}

// addEncryption adds the flags for commands that write backups.
func (s *secrets) addEncryption(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.ask, "passphrase", false, "encrypt with a passphrase, which is asked for or in "+config.EnvBackupPassphrase)
	cmd.Flags().StringVar(&s.passphraseFile, "passphrase-file", "", "encrypt with the passphrase in a `file`")
	cmd.Flags().StringArrayVar(&s.recipients, "recipient", nil, "encrypt for an age `recipient` (age1…); may be repeated")
}

// addDecryption adds the flags for commands that read backups.
func (s *secrets) addDecryption(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.passphraseFile, "passphrase-file", "", "`file` with the passphrase of an encrypted backup (default: it is asked for, or in "+config.EnvBackupPassphrase+")")
	cmd.Flags().StringVar(&s.archiveID, "backup", "", "`id` of a backup in a directory or s3:// URL (default: the newest)")
	cmd.Flags().StringVar(&s.identityFile, "identity", "", "age identity `file` for a backup that is encrypted for a recipient")
}

// encryption returns a new backup's encryption.
func (s *secrets) encryption(p session.Program) (backup.Encryption, error) {
	if len(s.recipients) > 0 && (s.ask || s.passphraseFile != "") {
		return backup.Encryption{}, exit.Usagef("give --recipient or a passphrase, and not both")
	}
	e := backup.Encryption{Recipients: strings.Join(s.recipients, "\n")}
	if !s.ask && s.passphraseFile == "" {
		return e, nil
	}
	var err error
	e.Passphrase, err = s.passphrase(p, true)
	return e, err
}

// decryption returns everything that can open a backup.
func (s *secrets) decryption(p session.Program) (backup.Decryption, error) {
	given := (&session.Env{Program: p}).Getenv(config.EnvBackupPassphrase)
	d := backup.Decryption{
		Passphrase: func() (string, error) { return s.passphrase(p, false) },
		Required:   given != "" || s.passphraseFile != "" || s.identityFile != "",
	}
	if s.identityFile == "" {
		return d, nil
	}
	text, err := readSmall(s.identityFile)
	d.Identities = text
	return d, err
}

// passphrase returns the passphrase from a file, the environment, or the terminal, where it asks
// twice for a new one.
func (s *secrets) passphrase(p session.Program, fresh bool) (string, error) {
	if s.passphraseFile != "" {
		text, err := readSmall(s.passphraseFile)
		text = strings.TrimRight(text, "\r\n")
		if err == nil && text == "" {
			err = exit.Usagef("%s is empty", s.passphraseFile)
		}
		return text, err
	}
	if text := (&session.Env{Program: p}).Getenv(config.EnvBackupPassphrase); text != "" {
		return text, nil
	}
	first, err := prompt(p, "Passphrase: ", "--passphrase-file or "+config.EnvBackupPassphrase)
	if err != nil || !fresh {
		return first, err
	}
	second, err := prompt(p, "Again: ", "--passphrase-file")
	if err == nil && first != second {
		err = exit.Usagef("the passphrases differ")
	}
	return first, err
}

// maxSecret caps a file with a secret, in bytes.
const maxSecret = 64 << 10

// readSmall reads a file with a secret.
func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret))
	return string(text), err
}

// prompt asks for a secret on the terminal. If there is none, its error names otherwise, the other
// way to give it.
func prompt(p session.Program, question, otherwise string) (string, error) {
	fd, ok := session.Terminal(p.In)
	if !ok {
		return "", exit.Usagef("a secret is needed, and there is no terminal to ask on; use %s", otherwise)
	}
	_, _ = fmt.Fprint(p.Err, question) // for people
	text, err := term.ReadPassword(fd)
	_, _ = fmt.Fprintln(p.Err)
	if err != nil {
		return "", fmt.Errorf("read the secret: %w", err)
	}
	if len(text) == 0 {
		return "", exit.Usagef("nothing was entered")
	}
	return string(text), nil
}

// askMasterKey asks for the master key on the terminal.
func askMasterKey(p session.Program) ([]byte, error) {
	text, err := prompt(p, "The master key is not in the backup. Master key: ",
		"STEWARD_MASTER_KEY or STEWARD_MASTER_KEY_FILE for the master key, which is not in the backup")
	if err != nil {
		return nil, err
	}
	key, err := config.ParseMasterKey(text)
	if err != nil {
		return nil, exit.Usagef("the master key %v", err)
	}
	return []byte(key), nil
}
