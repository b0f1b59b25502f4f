package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
)

// Cipher encrypts a repository's objects, and decrypts them if it has identities. A nil Cipher does
// neither.
type Cipher struct {
	recipients []age.Recipient
	identities []age.Identity
	// shared reports whether we encrypt for recipients, whose identities others keep.
	shared bool
	// empty is an encrypted object's size without content.
	empty int64
}

const (
	keyFormat  = "steward-repository"
	keyVersion = 1
	// MaxKeyFile caps a key file, in bytes.
	MaxKeyFile = 64 << 10
)

// keyFile says how a repository's objects are encrypted. It has one of its last two fields.
type keyFile struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Recipients is a hash, because nobody else needs to know who the recipients are.
	Recipients string `json:"recipients_sha256,omitempty"`
	// Identity is the repository's identity, encrypted with a passphrase.
	Identity []byte `json:"identity,omitempty"`
}

func parseKeyFile(text []byte) (f keyFile, err error) {
	if err := json.Unmarshal(text, &f); err != nil || f.Format != keyFormat {
		return f, damaged("the file that says how the backups are encrypted cannot be decoded")
	}
	if f.Version != keyVersion {
		return f, fmt.Errorf("the backups are encrypted as in version %d, and this program knows version %d: use a newer one",
			f.Version, keyVersion)
	}
	if (f.Recipients == "") == (len(f.Identity) == 0) {
		return f, damaged("the file that says how the backups are encrypted is not complete")
	}
	return f, nil
}

// errNoKeyFile means that a repository lost its key file. Nobody could read backups that we added now.
var errNoKeyFile = damaged("the file that says how the backups are encrypted is missing")

// NewKeyFile returns a key file for a new repository.
func (e Encryption) NewKeyFile() ([]byte, error) {
	f := keyFile{Format: keyFormat, Version: keyVersion}
	if e.Passphrase == "" {
		f.Recipients = e.fingerprint()
		return json.Marshal(f)
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fmt.Errorf("generate an identity: %w", err)
	}
	var sealed bytes.Buffer
	w, err := e.Encrypt(&sealed)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(w, identity.String()); err != nil {
		return nil, fmt.Errorf("encrypt the identity: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encrypt the identity: %w", err)
	}
	f.Identity = sealed.Bytes()
	return json.Marshal(f)
}

// fingerprint hashes the recipients, regardless of their order.
func (e Encryption) fingerprint() string {
	all := strings.Fields(e.Recipients)
	slices.Sort(all)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(all), "\n")))
	return hex.EncodeToString(sum[:])
}

// Cipher returns the cipher for adding backups to a repository with these key files. With a passphrase, it
// can also decrypt. There are several files if two processes created the repository at the same time.
func (e Encryption) Cipher(files ...[]byte) (*Cipher, error) {
	if len(files) == 0 {
		return nil, errNoKeyFile
	}
	if e.Passphrase != "" {
		given := func() (string, error) { return e.Passphrase, nil }
		return Decryption{Passphrase: given, Required: true}.Cipher(files...)
	}
	for _, text := range files {
		f, err := parseKeyFile(text)
		if err != nil {
			return nil, err
		}
		if f.Recipients == "" {
			return nil, errors.New("the backups there are encrypted with a passphrase; give that, or use another target for recipients")
		}
		if f.Recipients != e.fingerprint() {
			return nil, errors.New("the backups there are encrypted for other recipients; give the same, or use another target")
		}
	}
	recipients, err := e.recipients()
	if err != nil {
		return nil, err
	}
	c, err := newCipher(recipients, nil)
	if err != nil {
		return nil, err
	}
	c.shared = true
	return c, nil
}

// Cipher returns the cipher for reading backups from a repository with these key files.
func (d Decryption) Cipher(files ...[]byte) (*Cipher, error) {
	if len(files) == 0 {
		return nil, errNoKeyFile
	}
	var recipients []age.Recipient
	var identities []age.Identity
	for _, text := range files {
		f, err := parseKeyFile(text)
		if err != nil {
			return nil, err
		}
		if f.Recipients != "" {
			if d.Identities == "" && d.Required {
				return nil, errors.New("the backups there are encrypted for recipients, and not with a passphrase; name the file with an identity with --identity")
			}
			identities, err := d.identities(false)
			return &Cipher{identities: identities, shared: true}, err
		}
		identity, err := d.open(f.Identity)
		if err != nil {
			return nil, err
		}
		recipients = append(recipients, identity.Recipient())
		identities = append(identities, identity)
	}
	return newCipher(recipients[:1], identities)
}

// open decrypts a repository's identity with the passphrase.
func (d Decryption) open(sealed []byte) (*age.X25519Identity, error) {
	if d.Identities != "" || d.Passphrase == nil {
		return nil, errors.New("the backups there are encrypted with a passphrase, and not for recipients")
	}
	identities, err := d.identities(true)
	if err != nil {
		return nil, err
	}
	plain, err := decrypt(bytes.NewReader(sealed), identities)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(plain, MaxKeyFile))
	if err != nil {
		return nil, err
	}
	identity, err := age.ParseX25519Identity(string(text))
	if err != nil {
		return nil, damaged("the identity of the backups cannot be decoded")
	}
	return identity, nil
}

func newCipher(recipients []age.Recipient, identities []age.Identity) (*Cipher, error) {
	c := &Cipher{recipients: recipients, identities: identities}
	sealed, err := age.EncryptReader(strings.NewReader(""), recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypt the backup: %w", err)
	}
	c.empty, err = io.Copy(io.Discard, sealed)
	return c, err
}

// CanDecrypt reports whether we can read objects. With recipients alone, we can only add them.
func (c *Cipher) CanDecrypt() bool { return c == nil || len(c.identities) > 0 }

// ForRecipients reports whether objects are encrypted for recipients, so that you can add them without
// being able to decrypt them.
func (c *Cipher) ForRecipients() bool { return c != nil && c.shared }

// Encrypt returns a reader that encrypts r. It encrypts the object's name with the content, so that nobody
// can put one object in another's place.
func (c *Cipher) Encrypt(name string, r io.Reader) (io.Reader, error) {
	if c == nil {
		return r, nil
	}
	sealed, err := age.EncryptReader(io.MultiReader(strings.NewReader(name+"\n"), r), c.recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypt the backup: %w", err)
	}
	return sealed, nil
}

// age encrypts ageChunk bytes at a time and adds ageTag bytes to them.
const (
	ageChunk = 64 << 10
	ageTag   = 16
)

// EncryptedSize returns an object's size after encryption.
func (c *Cipher) EncryptedSize(name string, size int64) int64 {
	if c == nil {
		return size
	}
	size += int64(len(name)) + 1
	return c.empty + size + (size-1)/ageChunk*ageTag
}

// Decrypt returns an object's content. It refuses an object that is not encrypted, and without a cipher one
// that is.
func (c *Cipher) Decrypt(name string, r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(r, 32<<10)
	intro, err := buffered.Peek(len(ageIntro))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	encrypted := string(intro) == ageIntro
	switch {
	case c == nil && encrypted:
		return nil, damaged("it is encrypted, and the file that says how is missing")
	case c == nil:
		return buffered, nil
	case !encrypted:
		return nil, damaged("it is not encrypted as the others are")
	}
	plain, err := decrypt(buffered, c.identities)
	var other *age.NoIdentityMatchError
	if errors.As(err, &other) {
		return nil, fmt.Errorf("%w: it is encrypted for another identity", ErrDecrypt)
	}
	if err != nil {
		return nil, err
	}
	got := make([]byte, len(name)+1)
	if _, err := io.ReadFull(plain, got); err != nil {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	if string(got) != name+"\n" {
		return nil, damaged("it is another object that was put there")
	}
	return plain, nil
}
