// Package seal protects stored secrets. Secrets that are needed in plain text again are sealed:
// encrypted with AES-256-GCM under a master key. Secrets that are only compared are hashed with
// SHA-256 (Hash), which suffices since they are long and random.
//
// A sealed value consists of a version byte, 4 bytes of key ID, 12 bytes of nonce, ciphertext and
// tag. The key ID tells which master key opens it, so that an old key can stay in the ring while
// new values are sealed with the current one. The purpose of a value, such as "thread.user_data",
// is authenticated: a value that is copied to another column does not open.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"steward/internal/durable"
)

const (
	version  = 1
	idSize   = 4
	header   = 1 + idSize
	nonceLen = 12
	// KeySize is the length of a master key in bytes.
	KeySize = 32
)

// ErrKey is returned for a value that was sealed with a master key outside of the ring or for
// another purpose, or that was modified.
var ErrKey = errors.New("seal: value cannot be opened with this master key")

// Ring seals with its current key and opens with any of its keys.
type Ring struct {
	current [idSize]byte
	keys    map[[idSize]byte]cipher.AEAD
}

// NewRing returns a ring of master keys, of which the first is the current one.
func NewRing(keys ...[]byte) (*Ring, error) {
	if len(keys) == 0 {
		return nil, errors.New("seal: no master key")
	}
	r := &Ring{current: keyID(keys[0]), keys: map[[idSize]byte]cipher.AEAD{}}
	for _, k := range keys {
		if len(k) != KeySize {
			return nil, fmt.Errorf("seal: master key has %d bytes, want %d", len(k), KeySize)
		}
		block, err := aes.NewCipher(k)
		if err != nil {
			return nil, fmt.Errorf("seal: %w", err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("seal: %w", err)
		}
		r.keys[keyID(k)] = aead
	}
	return r, nil
}

// keyID identifies a key without revealing it.
func keyID(key []byte) (out [idSize]byte) {
	sum := sha256.Sum256(append([]byte("steward master key id:"), key...))
	copy(out[:], sum[:])
	return out
}

// Seal returns the sealed form of a value.
func (r *Ring) Seal(purpose string, plain []byte) []byte {
	out := make([]byte, header+nonceLen, header+nonceLen+len(plain)+16)
	out[0] = version
	copy(out[1:], r.current[:])
	nonce := out[header : header+nonceLen]
	rand.Read(nonce) // never fails
	return r.keys[r.current].Seal(out, nonce, plain, []byte(purpose))
}

// Open returns the value that was sealed for the same purpose, or ErrKey.
func (r *Ring) Open(purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) < header+nonceLen || sealed[0] != version {
		return nil, ErrKey
	}
	aead, ok := r.keys[[idSize]byte(sealed[1:header])]
	if !ok {
		return nil, ErrKey
	}
	plain, err := aead.Open(nil, sealed[header:header+nonceLen], sealed[header+nonceLen:], []byte(purpose))
	if err != nil {
		return nil, ErrKey
	}
	return plain, nil
}

// Hash returns the hash of a secret that is only compared.
func Hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// KeyFile returns the master key in master.key in a directory, in base64. It creates the file if
// there is none, readable by its owner only.
func KeyFile(dir string) ([]byte, error) {
	path := filepath.Join(dir, "master.key")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createKeyFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read master key: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("%s does not contain a master key (%d bytes in base64)", path, KeySize)
	}
	return key, nil
}

// createKeyFile syncs the file and its directory, so that the key is durable before anything is
// sealed with it.
func createKeyFile(path string) ([]byte, error) {
	key := make([]byte, KeySize)
	rand.Read(key) // never fails
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create master key: %w", err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString(base64.StdEncoding.EncodeToString(key) + "\n"); err != nil {
		return nil, fmt.Errorf("write master key: %w", err)
	}
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("sync master key: %w", err)
	}
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("sync directory of master key: %w", err)
	}
	return key, nil
}
