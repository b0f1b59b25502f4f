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

// Encryption says for whom backups are encrypted: whoever has the passphrase, or the identities of the
// recipients. The zero value means that they are not.
type Encryption struct {
	Passphrase string
	Recipients string // one on each line, as age has them
	// WorkFactor replaces that of passphrases, for tests that need not be safe.
	WorkFactor int
}

// IsSet reports whether backups are encrypted.
func (e Encryption) IsSet() bool { return e.Passphrase != "" || e.Recipients != "" }

// Encrypt returns a writer that encrypts what it is given. It must be closed.
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

// nopCloser is a writer that has nothing to close.
type nopCloser struct{ io.Writer }

// Close implements io.Closer.
func (nopCloser) Close() error { return nil }

// Decryption has what an encrypted backup is opened with.
type Decryption struct {
	// Passphrase is called for a backup that is encrypted with one.
	Passphrase func() (string, error)
	Identities string // in the words of an identity file of age
	// Required refuses backups that are not encrypted.
	Required bool
}

// workFactor is the logarithm of the cost of a passphrase: 256 MiB of memory. A file that asks for more is
// refused.
const workFactor = 18

// ageIntro begins what age has encrypted. A passphrase is named in the next line.
const (
	ageIntro  = "age-encryption.org/v1\n"
	ageScrypt = "-> scrypt "
)

var (
	// ErrDecrypt is returned if a backup cannot be opened with a passphrase or an identity.
	ErrDecrypt = errors.New("the passphrase or the identity is wrong, or the backup is damaged")
	// ErrNotEncrypted is returned for a backup that is not encrypted, although it has to be.
	ErrNotEncrypted = errors.New("a passphrase or an identity is given, and the backup is not encrypted: " +
		"it may have been replaced by somebody who does not have them")
)

// Decrypt returns what a backup contains, whether it is encrypted or not.
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

// decrypt returns what r has encrypted for one of the identities.
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

// decrypted returns ErrDamaged for what cannot be decrypted, and the errors of its source as they are.
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
		return passphraseIdentity(passphrase)
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

func passphraseIdentity(passphrase string) ([]age.Identity, error) {
	identity, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, fmt.Errorf("passphrase: %w", err)
	}
	identity.SetMaxWorkFactor(workFactor)
	return []age.Identity{identity}, nil
}
