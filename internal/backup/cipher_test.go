package backup_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"filippo.io/age"

	"steward/internal/backup"
)

// identity returns an identity of age and its recipient.
func identity(t *testing.T) (secret, recipient string) {
	t.Helper()
	i, err := age.GenerateX25519Identity()
	must(t, err)
	return i.String(), i.Recipient().String()
}

// cheap is a work factor for passphrases that nobody attacks.
const cheap = 1

// passphrase returns what reads the backups of a passphrase.
func passphrase(text string) backup.Decryption {
	return backup.Decryption{Passphrase: func() (string, error) { return text, nil }, Required: true}
}

func newKeyFile(t *testing.T, e backup.Encryption) []byte {
	t.Helper()
	file, err := e.NewKeyFile()
	must(t, err)
	return file
}

func encrypt(t *testing.T, c *backup.Cipher, text string) []byte {
	t.Helper()
	r, err := c.Encrypt("blobs/a", strings.NewReader(text))
	must(t, err)
	sealed, err := io.ReadAll(r)
	must(t, err)
	if want := c.EncryptedSize("blobs/a", int64(len(text))); int64(len(sealed)) != want {
		t.Errorf("%d bytes are %d encrypted ones, want %d", len(text), len(sealed), want)
	}
	return sealed
}

func decrypt(c *backup.Cipher, sealed []byte) (string, error) {
	r, err := c.Decrypt("blobs/a", bytes.NewReader(sealed))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
}

func TestCipherOfRecipientsAddsAndIdentitiesRead(t *testing.T) {
	firstSecret, first := identity(t)
	secondSecret, second := identity(t)
	otherSecret, other := identity(t)
	e := backup.Encryption{Recipients: first + "\n" + second}
	file := newKeyFile(t, e)
	if bytes.Contains(file, []byte("age1")) {
		t.Error("the key file names the recipients")
	}
	writer, err := backup.Encryption{Recipients: second + "\n" + first}.Cipher(file)
	must(t, err)
	if writer.CanDecrypt() || !writer.ForRecipients() {
		t.Error("whoever adds backups can decrypt them")
	}
	sealed := encrypt(t, writer, "content")
	if _, err := decrypt(writer, sealed); err == nil {
		t.Error("decrypted without an identity")
	}
	for _, secret := range []string{firstSecret, secondSecret} {
		reader, err := backup.Decryption{Identities: secret, Required: true}.Cipher(file)
		must(t, err)
		if got, err := decrypt(reader, sealed); err != nil || got != "content" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	reader, err := backup.Decryption{Identities: otherSecret}.Cipher(file)
	must(t, err)
	if _, err := decrypt(reader, sealed); !errors.Is(err, backup.ErrDecrypt) {
		t.Errorf("with another identity: %v", err)
	}
	for says, e := range map[string]backup.Encryption{
		"encrypted for other recipients": {Recipients: other},
		"and not with a passphrase":      {Passphrase: "p"},
	} {
		if _, err := e.Cipher(file); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

func TestCipherOfPassphraseHasAnIdentityOfItsOwn(t *testing.T) {
	e := backup.Encryption{Passphrase: "right", WorkFactor: cheap}
	file := newKeyFile(t, e)
	writer, err := e.Cipher(file)
	must(t, err)
	sealed := encrypt(t, writer, "content")
	reader, err := passphrase("right").Cipher(file)
	must(t, err)
	if got, err := decrypt(reader, sealed); err != nil || got != "content" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := passphrase("wrong").Cipher(file); !errors.Is(err, backup.ErrDecrypt) {
		t.Errorf("with a wrong passphrase: %v", err)
	}
	_, recipient := identity(t)
	if _, err := (backup.Encryption{Recipients: recipient}).Cipher(file); err == nil || !strings.Contains(err.Error(), "with a passphrase") {
		t.Errorf("with recipients: %v", err)
	}
	both, err := e.Cipher(newKeyFile(t, e), file) // two processes have created the repository
	must(t, err)
	if got, err := decrypt(both, sealed); err != nil || got != "content" {
		t.Errorf("with two key files: %q, %v", got, err)
	}
}

// TestCiphersNeedAKeyFile has the key file of a repository deleted.
func TestCiphersNeedAKeyFile(t *testing.T) {
	_, recipient := identity(t)
	for name, cipher := range map[string]func(...[]byte) (*backup.Cipher, error){
		"reading":              passphrase("p").Cipher,
		"adding":               backup.Encryption{Passphrase: "p"}.Cipher,
		"adding for recipient": backup.Encryption{Recipients: recipient}.Cipher,
	} {
		if c, err := cipher(); c != nil || !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}

func TestEncryptedSizes(t *testing.T) {
	_, recipient := identity(t)
	e := backup.Encryption{Recipients: recipient}
	c, err := e.Cipher(newKeyFile(t, e))
	must(t, err)
	for _, size := range []int{0, 1, 64<<10 - 9, 64<<10 - 8, 64<<10 - 7, 64 << 10, 128 << 10, 200_000} {
		encrypt(t, c, strings.Repeat("x", size))
	}
}

// TestCiphersRefuseWhatIsNotTheirs reads objects that somebody has replaced.
func TestCiphersRefuseWhatIsNotTheirs(t *testing.T) {
	secret, recipient := identity(t)
	e := backup.Encryption{Recipients: recipient}
	file := newKeyFile(t, e)
	writer, err := e.Cipher(file)
	must(t, err)
	reader, err := backup.Decryption{Identities: secret}.Cipher(file)
	must(t, err)
	sealed := encrypt(t, writer, strings.Repeat("content", 50_000))
	flipped := bytes.Clone(sealed)
	flipped[len(flipped)/2] ^= 1
	header := bytes.Clone(sealed)
	header[30] ^= 1
	var plain *backup.Cipher
	for name, test := range map[string]struct {
		cipher  *backup.Cipher
		content []byte
	}{
		"plain":        {reader, []byte("plain")},
		"empty":        {reader, nil},
		"flipped":      {reader, flipped},
		"header":       {reader, header},
		"cut":          {reader, sealed[:len(sealed)-1]},
		"cut at chunk": {reader, sealed[:writer.EncryptedSize("", 64<<10-1)]},
		"cut early":    {reader, sealed[:30]},
		"encrypted":    {plain, sealed},
	} {
		if _, err := decrypt(test.cipher, test.content); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, other := range []string{"blobs/b", "blobs/", "archives/a", "blobs/a\ncontent"} {
		if _, err := reader.Decrypt(other, bytes.NewReader(sealed)); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("as %q: %v", other, err)
		}
	}
	for _, text := range []string{"", "{}", `{"format":"steward-repository","version":2}`, `{"format":"steward-repository","version":1}`} {
		if _, err := e.Cipher([]byte(text)); err == nil {
			t.Errorf("the key file %q was accepted", text)
		}
	}
}

// TestPlainBackupsAreRefusedWithASecret has a backup that is not encrypted in the place of one that was.
func TestPlainBackupsAreRefusedWithASecret(t *testing.T) {
	whole := write(t, parts())
	if _, err := passphrase("p").Decrypt(bytes.NewReader(whole)); !errors.Is(err, backup.ErrNotEncrypted) {
		t.Errorf("got %v", err)
	}
}

// TestPassphrasesHaveTheirCost also opens a file that asks for twice the memory of others.
func TestPassphrasesHaveTheirCost(t *testing.T) {
	var out bytes.Buffer
	w, err := backup.Encryption{Passphrase: "p"}.Encrypt(&out)
	must(t, err)
	must(t, w.Close())
	costlier := bytes.Replace(out.Bytes(), []byte(" 18\n"), []byte(" 19\n"), 1)
	if bytes.Equal(costlier, out.Bytes()) {
		t.Errorf("the work factor is not 18: %.200q", out.Bytes())
	}
	if _, err := passphrase("p").Decrypt(bytes.NewReader(costlier)); err == nil || !strings.Contains(err.Error(), "work factor too large") {
		t.Errorf("a work factor of 19: %v", err)
	}
}
