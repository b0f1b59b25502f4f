// Package seal protects stored secrets. Secrets that are needed in plain text again are sealed: encrypted
// with XChaCha20-Poly1305 under a key derived from a master key. Secrets that are only compared are hashed
// with SHA-256 (Hash), which suffices since they are long and random.
//
// A sealed value consists of a version byte, 4 bytes of key ID, nonce, ciphertext and tag. The key ID
// tells which master key opens it, so that an old key can stay in the ring while new values are sealed
// with the current one. The purpose of a value, such as "thread.user_data", is authenticated: a value
// that is copied to another column does not open.
//
// Nonces are random. Those of version 2 have 24 bytes, which suffice for any number of values. Values
// of version 1, which are opened but no longer made, are sealed with AES-256-GCM, whose 12 bytes suffice
// for 2^32 values of a key: as many as a busy installation seals in a few days.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"steward/internal/durable"
)

const (
	versionGCM     = 1
	versionXChaCha = 2

	idSize = 4
	header = 1 + idSize
	// KeySize is the length of a master key in bytes.
	KeySize = 32
)

// ErrKey is returned for a value that was sealed with a master key outside of the ring or for
// another purpose, or that was modified.
var ErrKey = errors.New("seal: value cannot be opened with this master key")

// Ring seals with its current key and opens with any of its keys.
type Ring struct {
	current keyID
	ciphers map[cipherID]cipher.AEAD
	macKeys [][]byte // derived from the keys, the current one first
}

// keyID identifies a master key without revealing it.
type keyID [idSize]byte

// cipherID names what a value was sealed with.
type cipherID struct {
	version byte
	key     keyID
}

// NewRing returns a ring of master keys, of which the first is the current one.
func NewRing(keys ...[]byte) (*Ring, error) {
	if len(keys) == 0 {
		return nil, errors.New("seal: no master key")
	}
	r := &Ring{current: idOf(keys[0]), ciphers: map[cipherID]cipher.AEAD{}}
	for _, k := range keys {
		if err := r.add(k); err != nil {
			return nil, fmt.Errorf("seal: %w", err)
		}
	}
	return r, nil
}

// add adds what is derived from a master key.
func (r *Ring) add(key []byte) error {
	if len(key) != KeySize {
		return fmt.Errorf("master key has %d bytes, want %d", len(key), KeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}
	derived, err := hkdf.Key(sha256.New, key, nil, "steward seal version 2", chacha20poly1305.KeySize)
	if err != nil {
		return err
	}
	xchacha, err := chacha20poly1305.NewX(derived)
	if err != nil {
		return err
	}
	macKey, err := hkdf.Key(sha256.New, key, nil, "steward mac", sha256.Size)
	if err != nil {
		return err
	}
	r.macKeys = append(r.macKeys, macKey)
	r.ciphers[cipherID{versionGCM, idOf(key)}] = gcm
	r.ciphers[cipherID{versionXChaCha, idOf(key)}] = xchacha
	return nil
}

func idOf(key []byte) (out keyID) {
	sum := sha256.Sum256(append([]byte("steward master key id:"), key...))
	copy(out[:], sum[:])
	return out
}

// Seal returns the sealed form of a value.
func (r *Ring) Seal(purpose string, plain []byte) []byte {
	return r.seal(versionXChaCha, purpose, plain)
}

func (r *Ring) seal(version byte, purpose string, plain []byte) []byte {
	aead := r.ciphers[cipherID{version, r.current}]
	start := header + aead.NonceSize()
	out := make([]byte, start, start+len(plain)+aead.Overhead())
	out[0] = version
	copy(out[1:], r.current[:])
	nonce := out[header:start]
	rand.Read(nonce) // never fails
	return aead.Seal(out, nonce, plain, []byte(purpose))
}

// KeyID returns the ID of the current key in hex. It does not reveal the key.
func (r *Ring) KeyID() string { return r.current.String() }

// HasKey reports whether the ring has the key with an ID of KeyID.
func (r *Ring) HasKey(id string) bool {
	for c := range r.ciphers {
		if c.key.String() == id {
			return true
		}
	}
	return false
}

// IsCurrent reports whether a value, of which the first 5 bytes suffice, is sealed in the current version
// with the current key.
func (r *Ring) IsCurrent(sealed []byte) bool {
	return len(sealed) >= header && sealed[0] == versionXChaCha && keyID(sealed[1:header]) == r.current
}

// KeyOf returns the ID of the key that a value was sealed with. It returns false for bytes that cannot be a
// sealed value.
func KeyOf(sealed []byte) (id string, ok bool) {
	if len(sealed) < header || sealed[0] != versionGCM && sealed[0] != versionXChaCha {
		return "", false
	}
	return keyID(sealed[1:header]).String(), true
}

func (k keyID) String() string { return hex.EncodeToString(k[:]) }

// Open returns the value that was sealed for the same purpose, or ErrKey.
func (r *Ring) Open(purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) < header {
		return nil, ErrKey
	}
	aead, ok := r.ciphers[cipherID{sealed[0], keyID(sealed[1:header])}]
	if !ok || len(sealed) < header+aead.NonceSize() {
		return nil, ErrKey
	}
	start := header + aead.NonceSize()
	plain, err := aead.Open(nil, sealed[header:start], sealed[start:], []byte(purpose))
	if err != nil {
		return nil, ErrKey
	}
	return plain, nil
}

// MAC returns an HMAC-SHA-256 of a text under a key that is derived from the current master key, so that
// all replicas make the same. The purpose separates the uses of the key; it must not contain a zero byte.
func (r *Ring) MAC(purpose, text string) []byte { return macOf(r.macKeys[0], purpose, text) }

// CheckMAC reports whether a ring whose current key is one of this one has made a MAC.
func (r *Ring) CheckMAC(mac []byte, purpose, text string) bool {
	for _, key := range r.macKeys {
		if hmac.Equal(mac, macOf(key, purpose, text)) {
			return true
		}
	}
	return false
}

func macOf(key []byte, purpose, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(purpose + "\x00" + text))
	return h.Sum(nil)
}

// Hash returns the hash of a secret that is only compared.
func Hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// KeyFile returns the master key in master.key in a directory. The error wraps fs.ErrNotExist if there is none.
func KeyFile(dir string) ([]byte, error) {
	path := filepath.Join(dir, "master.key")
	text, err := ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read master key %s: %w", path, err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("%s does not contain a master key (%d bytes in base64)", path, KeySize)
	}
	return key, nil
}

// maxKeyFile bounds the size of a file with master keys.
const maxKeyFile = 64 << 10

// ReadFile returns the content of a file with master keys. It returns an error if other users of the machine
// than its owner and its group can read or write it.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o006 != 0 {
		return nil, fmt.Errorf("its mode is %04o, so that other users of the machine can use it; run chmod 600", info.Mode().Perm())
	}
	return io.ReadAll(io.LimitReader(f, maxKeyFile))
}

// WriteKeyFile writes a master key to master.key in a directory, readable by its owner only. It syncs the file and the
// directory, so that the key is durable before anything sealed with it is committed.
func WriteKeyFile(dir string, key []byte) error {
	if err := durable.WriteFile(filepath.Join(dir, "master.key"), []byte(base64.StdEncoding.EncodeToString(key)+"\n")); err != nil {
		return fmt.Errorf("write master key: %w", err)
	}
	return nil
}

// NewKey returns a random master key.
func NewKey() []byte {
	key := make([]byte, KeySize)
	rand.Read(key) // never fails
	return key
}
