// Package seal owns secrets that must be shown or used again: they are stored as AES-256-GCM under a master key. Secrets that are only
// compared are stored as SHA-256 (Hash); they are long and random, so a fast hash is enough.
//
// A sealed value is: version byte 1 | 4 bytes of key id | 12 bytes of nonce | ciphertext and tag. The key id says which master key opens
// it, so that an old key can stay in the ring while values are sealed anew under the current one. A purpose ("thread.user_data",
// "webhook.secret") is bound to each value: one that was moved to another column does not open.
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
)

const (
	version  = 1
	idSize   = 4
	header   = 1 + idSize
	nonceLen = 12
	// KeySize is the length of a master key.
	KeySize = 32
)

// ErrKey says that a value was sealed with a master key that this ring does not hold, or that it was tampered with.
var ErrKey = errors.New("the master key does not open this value")

// Ring seals with its current key and opens with any of its keys.
type Ring struct {
	current [idSize]byte
	keys    map[[idSize]byte]cipher.AEAD
}

// NewRing makes a ring; the first key is the current one.
func NewRing(keys ...[]byte) (*Ring, error) {
	if len(keys) == 0 {
		return nil, errors.New("seal: no master key")
	}
	r := &Ring{current: keyID(keys[0]), keys: map[[idSize]byte]cipher.AEAD{}}
	for _, k := range keys {
		if len(k) != KeySize {
			return nil, fmt.Errorf("seal: a master key has %d bytes, not %d", KeySize, len(k))
		}
		block, err := aes.NewCipher(k)
		if err != nil {
			return nil, err
		}
		if r.keys[keyID(k)], err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// keyID names a key without telling anything of it.
func keyID(key []byte) (out [idSize]byte) {
	sum := sha256.Sum256(append([]byte("steward master key id:"), key...))
	copy(out[:], sum[:])
	return out
}

// Seal encrypts a value for a purpose.
func (r *Ring) Seal(purpose string, plain []byte) []byte {
	out := make([]byte, header+nonceLen, header+nonceLen+len(plain)+16)
	out[0] = version
	copy(out[1:], r.current[:])
	nonce := out[header : header+nonceLen]
	rand.Read(nonce) // never fails (crypto/rand)
	return r.keys[r.current].Seal(out, nonce, plain, []byte(purpose))
}

// Open decrypts what Seal made for the same purpose. Any other input gives ErrKey.
func (r *Ring) Open(purpose string, sealed []byte) ([]byte, error) {
	return r.AppendOpen(nil, purpose, sealed)
}

// AppendOpen is Open into memory that the caller has.
func (r *Ring) AppendOpen(to []byte, purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) < header+nonceLen || sealed[0] != version {
		return nil, ErrKey
	}
	aead, ok := r.keys[[idSize]byte(sealed[1:header])]
	if !ok {
		return nil, ErrKey
	}
	plain, err := aead.Open(to, sealed[header:header+nonceLen], sealed[header+nonceLen:], []byte(purpose))
	if err != nil {
		return nil, ErrKey
	}
	return plain, nil
}

// Hash is what is stored of a secret that is only ever compared.
func Hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// KeyFile gives the master key of a data directory, making one when there is none. The file holds base64 and is readable by its owner only.
func KeyFile(dir string) ([]byte, error) {
	path := filepath.Join(dir, "master.key")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKeyFile(path)
	}
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("%s does not hold a master key (%d bytes in base64)", path, KeySize)
	}
	return key, nil
}

// makeKeyFile writes the new key to the disk before anything can be sealed with it.
func makeKeyFile(path string) ([]byte, error) {
	key := make([]byte, KeySize)
	rand.Read(key) // never fails (crypto/rand)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(key) + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	return key, errors.Join(err, syncDir(filepath.Dir(path)))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
