package provider

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"steward/internal/oidc"
)

// request is an authorization request that has been checked against its client.
type request struct {
	ClientID    string   `json:"client_id"`
	RedirectURI string   `json:"redirect_uri"`
	State       string   `json:"state,omitempty"`
	Nonce       string   `json:"nonce,omitempty"`
	Scopes      []string `json:"scopes"`
	Challenge   string   `json:"challenge,omitempty"`
	JKT         string   `json:"jkt,omitempty"`
	Prompts     []string `json:"prompts,omitempty"`
	// MaxAge is in seconds; nil when none was asked for.
	MaxAge    *int64 `json:"max_age,omitempty"`
	LoginHint string `json:"login_hint,omitempty"`
	// Subject is the user whom an id_token_hint names; empty when there was none.
	Subject string `json:"subject,omitempty"`
}

func (q *request) prompts(what string) bool { return slices.Contains(q.Prompts, what) }

const (
	promptNone    = "none"
	promptLogin   = "login"
	promptConsent = "consent"
	promptSelect  = "select_account"
)

// maxParams bounds what a flow carries from page to page.
const maxParams = 8 << 10

// single gives a parameter that may be there once at most (RFC 6749 section 3.1).
func single(form url.Values, name string) (string, *fault) {
	values := form[name]
	if len(values) > 1 {
		return "", refuse(invalidRequest, name+" is there more than once")
	}
	if len(values) == 0 {
		return "", nil
	}
	if !utf8.ValidString(values[0]) || strings.ContainsRune(values[0], 0) {
		return "", refuse(invalidRequest, name+" is not valid text")
	}
	return values[0], nil
}

// target finds the client's redirect address in a request. Until it is known to be the client's own, nothing may be redirected: a fault of
// this function is shown on a page.
func target(c *client, form url.Values) (string, *fault) {
	uri, f := single(form, "redirect_uri")
	if f != nil {
		return "", f
	}
	if uri == "" {
		return "", refuse(invalidRequest, "redirect_uri is missing")
	}
	if !c.MayRedirect(uri) {
		return "", refuse(invalidRequest, "redirect_uri is not registered for this client")
	}
	return uri, nil
}

// parse checks what a client asks for. Its faults may be redirected, since the target is known.
func (p *Provider) parse(ctx context.Context, c *client, redirectURI string, form url.Values) (*request, *fault) {
	q := &request{ClientID: c.ID, RedirectURI: redirectURI}
	param := map[string]string{}
	size := 0
	for name := range form {
		value, f := single(form, name)
		if f != nil {
			return nil, f
		}
		param[name] = value
		size += len(value)
	}
	if size > maxParams {
		return nil, refuse(invalidRequest, "the request is too large")
	}
	for _, check := range []func(*client, map[string]string) *fault{
		unsupported, responseType, q.scope, p.pkceOf(q), q.proof, q.prompt, q.maxAge, p.hintOf(ctx, q),
	} {
		if f := check(c, param); f != nil {
			return nil, f
		}
	}
	q.State, q.Nonce, q.LoginHint = param["state"], param["nonce"], param["login_hint"]
	return q, nil
}

// unsupported refuses what would change the meaning of a request if it were ignored.
func unsupported(_ *client, param map[string]string) *fault {
	switch {
	case param["request"] != "":
		return refuse("request_not_supported", "request objects are not supported")
	case param["request_uri"] != "":
		return refuse("request_uri_not_supported", "a request_uri must come from the pushed authorization request endpoint")
	case param["registration"] != "":
		return refuse("registration_not_supported", "registration is not supported")
	}
	return nil
}

func responseType(c *client, param map[string]string) *fault {
	switch {
	case param["response_type"] == "":
		return refuse(invalidRequest, "response_type is missing")
	case param["response_type"] != "code":
		return refuse("unsupported_response_type", "response_type must be code")
	case param["response_mode"] != "" && param["response_mode"] != "query":
		return refuse(invalidRequest, "response_mode must be query")
	case !slices.Contains(c.GrantTypes, oidc.AuthorizationCode):
		return refuse("unauthorized_client", "this client may not use authorization codes")
	}
	return nil
}

// scope keeps of what is asked for that which the client may have; the answer of the token endpoint tells what that was. Nothing asked for
// means all of it.
func (q *request) scope(c *client, param map[string]string) *fault {
	q.Scopes = allowedScopes(c, param["scope"])
	if len(q.Scopes) == 0 {
		return refuse(invalidScope, "none of the scopes is allowed for this client")
	}
	return nil
}

func allowedScopes(c *client, asked string) []string {
	if strings.TrimSpace(asked) == "" {
		return slices.Clone(c.Scopes)
	}
	var scopes []string
	for _, s := range strings.Fields(asked) {
		if slices.Contains(c.Scopes, s) && !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

// pkceOf checks the challenge: S256 alone, demanded of public clients, and of the others when the operator says so.
func (p *Provider) pkceOf(q *request) func(*client, map[string]string) *fault {
	return func(c *client, param map[string]string) *fault {
		challenge, method := param["code_challenge"], param["code_challenge_method"]
		switch {
		case challenge == "" && method != "":
			return refuse(invalidRequest, "code_challenge is missing")
		case challenge == "" && (isPublic(c) || p.RequirePKCE):
			return refuse(invalidRequest, "this client must use PKCE: code_challenge is missing")
		case challenge != "" && method != "S256":
			return refuse(invalidRequest, "code_challenge_method must be S256")
		case challenge != "" && !isDigest(challenge):
			return refuse(invalidRequest, "code_challenge must be a SHA-256 in base64url without padding")
		}
		q.Challenge = challenge
		return nil
	}
}

// isDigest tells whether s can be a SHA-256 in base64url.
func isDigest(s string) bool { return len(s) == 43 && isURLSafe(s) }

func isURLSafe(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	})
}

func (q *request) proof(_ *client, param map[string]string) *fault {
	q.JKT = param["dpop_jkt"]
	if q.JKT != "" && !isDigest(q.JKT) {
		return refuse(invalidRequest, "dpop_jkt must be a thumbprint of a key")
	}
	return nil
}

func (q *request) prompt(_ *client, param map[string]string) *fault {
	q.Prompts = strings.Fields(param["prompt"])
	for _, one := range q.Prompts {
		if !slices.Contains([]string{promptNone, promptLogin, promptConsent, promptSelect}, one) {
			return refuse(invalidRequest, "prompt knows none, login, consent and select_account")
		}
	}
	if q.prompts(promptNone) && len(q.Prompts) > 1 {
		return refuse(invalidRequest, "prompt=none stands alone")
	}
	return nil
}

func (q *request) maxAge(_ *client, param map[string]string) *fault {
	if param["max_age"] == "" {
		return nil
	}
	n, err := strconv.ParseInt(param["max_age"], 10, 32)
	if err != nil || n < 0 {
		return refuse(invalidRequest, "max_age must be a number of seconds")
	}
	q.MaxAge = &n
	return nil
}

// hintOf reads whom the client expects to be signed in. The token may have expired; it must be ours.
func (p *Provider) hintOf(ctx context.Context, q *request) func(*client, map[string]string) *fault {
	return func(c *client, param map[string]string) *fault {
		if param["id_token_hint"] == "" {
			return nil
		}
		claims, ok := p.readIDToken(ctx, param["id_token_hint"])
		if !ok || !slices.Contains(claims.Audience, c.ID) {
			return refuse(invalidRequest, "id_token_hint is not an ID token that this client got here")
		}
		q.Subject = claims.Subject
		return nil
	}
}
