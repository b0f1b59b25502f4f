package postgres

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// name quotes an SQL identifier.
func name(s string) string { return pgx.Identifier{s}.Sanitize() }

// literal quotes a text as an SQL literal with escapes, so that it does not depend on the server's
// standard_conforming_strings. It replaces characters that PostgreSQL cannot store.
func literal(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	return " E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + "'"
}

const (
	scramIterations = 4096
	scramSaltSize   = 16
)

// newVerifier returns the verifier that a server stores for SCRAM-SHA-256 (RFC 5803). We send it instead
// of the password, to keep the password out of statement logs.
func newVerifier(password string) (string, error) {
	salt := make([]byte, scramSaltSize)
	rand.Read(salt) // never fails
	return verifier(password, salt, scramIterations)
}

func verifier(password string, salt []byte, iterations int) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive key: %w", err)
	}
	stored := sha256.Sum256(sign(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, encode(salt), encode(stored[:]), encode(sign(salted, "Server Key"))), nil
}

func sign(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
