package backup

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

// Encryption says who can read backups: everybody with the passphrase, or with a recipient's identity. The
// zero value does not encrypt.
type Encryption struct {
	Passphrase string
	Recipients string // one per line, as in age
	// WorkFactor overrides the default for passphrases, to make tests fast.
	WorkFactor int
}

// IsSet reports whether backups are encrypted.
func (e Encryption) IsSet() bool { return e.Passphrase != "" || e.Recipients != "" }

// Encrypt returns a writer that encrypts to w. You must close it.
func (e Encryption) Encrypt(w io.Writer) (io.WriteCloser, error) {
	recipients, err := e.recipients()
	if err != nil {
		return nil, err
	}
	if recipients == nil {
		return nopCloser{w}, nil
	}
	encrypted, err := age.Encrypt(w, recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypt the backup: %w", err)
	}
	return encrypted, nil
}

// Check returns an error unless the recipients can be parsed.
func (e Encryption) Check() error {
	_, err := e.recipients()
	return err
}

func (e Encryption) recipients() ([]age.Recipient, error) {
	switch {
	case e.Passphrase != "" && e.Recipients != "":
		return nil, errors.New("a backup is encrypted with a passphrase or for recipients, and not both")
	case e.Passphrase != "":
		r, err := age.NewScryptRecipient(e.Passphrase)
		if err != nil {
			return nil, fmt.Errorf("passphrase: %w", err)
		}
		r.SetWorkFactor(cmp.Or(e.WorkFactor, workFactor))
		return []age.Recipient{r}, nil
	case e.Recipients != "":
		all, err := age.ParseRecipients(strings.NewReader(e.Recipients))
		if err != nil {
			return nil, fmt.Errorf("recipients: %w", err)
		}
		return all, nil
	}
	return nil, nil
}

// nopCloser gives a writer a Close method that does nothing.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// Decryption opens encrypted backups.
type Decryption struct {
	// Passphrase is called for a backup that needs one.
	Passphrase func() (string, error)
	Identities string // in the format of an age identity file
	// Required refuses backups that are not encrypted.
	Required bool
}

// workFactor is the logarithm of a passphrase's cost. It takes 256 MiB of memory. We refuse a file that
// asks for more.
const workFactor = 18

// ageIntro begins every age file. With a passphrase, ageScrypt begins the next line.
const (
	ageIntro  = "age-encryption.org/v1\n"
	ageScrypt = "-> scrypt "
)

var (
	// ErrDecrypt means that no passphrase or identity opens the backup.
	ErrDecrypt = errors.New("the passphrase or the identity is wrong, or the backup is damaged")
	// ErrNotEncrypted means that the backup must be encrypted but is not.
	ErrNotEncrypted = errors.New("a passphrase or an identity is given, and the backup is not encrypted: " +
		"it may have been replaced by somebody who does not have them")
)

// Decrypt returns a backup's content, whether or not it is encrypted.
func (d Decryption) Decrypt(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	intro, err := buffered.Peek(len(ageIntro) + len(ageScrypt))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	if !bytes.HasPrefix(intro, []byte(ageIntro)) {
		if d.Required {
			return nil, ErrNotEncrypted
		}
		return buffered, nil
	}
	identities, err := d.identities(bytes.HasSuffix(intro, []byte(ageScrypt)))
	if err != nil {
		return nil, err
	}
	return decrypt(buffered, identities)
}

// decrypt decrypts r with one of the identities.
func decrypt(r io.Reader, identities []age.Identity) (io.Reader, error) {
	from := &source{Reader: r}
	plain, err := age.Decrypt(from, identities...)
	if err != nil && from.err != nil {
		return nil, fmt.Errorf("read the backup: %w", from.err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDecrypt, err)
	}
	return decrypted{from, plain}, nil
}

// decrypted turns decryption errors into ErrDamaged, and passes on its source's errors.
type decrypted struct {
	from  *source
	plain io.Reader
}

func (d decrypted) Read(to []byte) (int, error) {
	n, err := d.plain.Read(to)
	if err == nil || err == io.EOF || d.from.err != nil || errors.Is(err, io.ErrUnexpectedEOF) {
		return n, err
	}
	return n, damaged("it cannot be decrypted")
}

func (d Decryption) identities(scrypt bool) ([]age.Identity, error) {
	if scrypt {
		passphrase, err := d.Passphrase()
		if err != nil {
			return nil, err
		}
		identity, err := age.NewScryptIdentity(passphrase)
		if err != nil {
			return nil, fmt.Errorf("passphrase: %w", err)
		}
		identity.SetMaxWorkFactor(workFactor)
		return []age.Identity{identity}, nil
	}
	if d.Identities == "" {
		return nil, errors.New("the backup is encrypted for recipients; name the file with an identity with --identity")
	}
	all, err := age.ParseIdentities(strings.NewReader(d.Identities))
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return all, nil
}
