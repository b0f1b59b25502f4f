package webhooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Request is a request that a webhook received, as record writes it.
type Request struct {
	ID      string            `json:"id"`
	Date    string            `json:"date"`
	Method  string            `json:"method"`
	Query   string            `json:"query,omitempty"`
	Headers map[string]string `json:"headers"`
	// Body is the body if it is text, Base64 otherwise.
	Body   string `json:"body,omitempty"`
	Base64 string `json:"body_base64,omitempty"`
}

// SetBody sets the body.
func (r *Request) SetBody(body []byte) {
	r.Body = ""
	r.Base64 = ""
	if utf8.Valid(body) {
		r.Body = string(body)
		return
	}
	r.Base64 = base64.StdEncoding.EncodeToString(body)
}

// Bytes returns the body.
func (r *Request) Bytes() ([]byte, error) {
	if r.Base64 == "" {
		return []byte(r.Body), nil
	}
	return base64.StdEncoding.DecodeString(r.Base64)
}

// Answer is the response to a request that was sent.
type Answer struct {
	Status int
	Body   []byte // its beginning
	Took   time.Duration
}

// OK reports whether the request was accepted.
func (a Answer) OK() bool { return a.Status/100 == 2 }

// Sender sends requests to a URL, signed as Standard Webhooks wants.
type Sender struct {
	Target *url.URL
	Secret string // whsec_ and a key in base64
	HTTP   *http.Client
}

const secretPrefix = "whsec_"

// NewSecret returns a random secret.
func NewSecret() string {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// NewSender returns a sender that follows no redirects.
func NewSender(target, secret string) (*Sender, error) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the target must be a URL, such as http://localhost:3000/hook")
	}
	if _, err := secretKey(secret); err != nil {
		return nil, err
	}
	return &Sender{u, secret, &http.Client{
		Timeout:       30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func secretKey(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) == 0 {
		return nil, errors.New("the secret must be whsec_ and a key in base64, as destinations have it")
	}
	return key, nil
}

// dropped has the headers that deliveries do not carry either: the connection's, and those meant for
// the webhook alone.
var dropped = map[string]bool{
	"connection": true, "content-length": true, "host": true, "keep-alive": true, "proxy-connection": true, "te": true,
	"trailer": true, "transfer-encoding": true, "upgrade": true, "accept-encoding": true, "cookie": true, "authorization": true,
	"proxy-authorization": true, "proxy-authenticate": true,
}

// maxAnswer bounds how much of a response we keep.
const maxAnswer = 16 << 10

// Send sends a request.
func (s *Sender) Send(ctx context.Context, r Request) (Answer, error) {
	body, err := r.Bytes()
	if err != nil {
		return Answer{}, fmt.Errorf("decode the body of %s: %w", r.ID, err)
	}
	req, err := s.build(ctx, r, body)
	if err != nil {
		return Answer{}, err
	}
	start := time.Now()
	res, err := s.HTTP.Do(req)
	if err != nil {
		return Answer{Took: time.Since(start)}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return Answer{Status: res.StatusCode, Body: text, Took: time.Since(start)}, err
}

func (s *Sender) build(ctx context.Context, r Request, body []byte) (*http.Request, error) {
	target := *s.Target
	target.RawQuery = strings.Trim(target.RawQuery+"&"+r.Query, "&")
	req, err := http.NewRequestWithContext(ctx, r.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("request %s cannot be sent: %w", r.ID, err)
	}
	for name, value := range r.Headers {
		if !dropped[strings.ToLower(name)] {
			req.Header.Set(name, value)
		}
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	signature, err := sign(s.Secret, r.ID, at, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("webhook-id", r.ID)
	req.Header.Set("webhook-timestamp", at)
	req.Header.Set("webhook-signature", signature)
	return req, nil
}

// sign returns the webhook-signature that Standard Webhooks specifies.
func sign(secret, id, timestamp string, body []byte) (string, error) {
	key, err := secretKey(secret)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}
