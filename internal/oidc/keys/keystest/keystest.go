// Package keystest makes RSA keys cheap for tests.
package keystest

import (
	"crypto/rand"
	"crypto/rsa"
	"sync"
)

var (
	mu   sync.Mutex
	made []*rsa.PrivateKey
)

// NewRSA returns a generator for the keys of one installation. They differ from each other, but other
// installations in the process have the same ones.
func NewRSA() func() (*rsa.PrivateKey, error) {
	next := 0
	return func() (*rsa.PrivateKey, error) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(made) {
			key, err := rsa.GenerateKey(rand.Reader, 2048)
			if err != nil {
				return nil, err
			}
			made = append(made, key)
		}
		next++
		return made[next-1], nil
	}
}
