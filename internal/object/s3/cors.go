package s3

import (
	"encoding/xml"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"steward/internal/object"
)

// corsConfiguration answers GetBucketCors.
type corsConfiguration struct {
	XMLName xml.Name   `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CORSConfiguration"`
	Rules   []corsRule `xml:"CORSRule"`
}

// corsRule allows pages from other origins to send requests.
type corsRule struct {
	Origins       []string `xml:"AllowedOrigin"`
	Methods       []string `xml:"AllowedMethod"`
	Headers       []string `xml:"AllowedHeader"`
	Expose        []string `xml:"ExposeHeader"`
	MaxAgeSeconds *int64   `xml:",omitempty"`
}

// corsRules returns the console's rule and the bucket's, if b is not nil and has one. As in S3, a rule
// without origins allows nobody, and one without headers allows only simple requests. Methods default to
// GET and HEAD.
func (s *Server) corsRules(b *object.Bucket) (rules []corsRule) {
	if s.Console != "" {
		rules = append(rules, corsRule{
			Origins: []string{s.Console}, Methods: []string{"GET", "HEAD", "PUT", "POST", "DELETE"}, Headers: []string{"*"},
			Expose: []string{"ETag"},
		})
	}
	if b == nil || b.Config.CORS == nil || len(b.Config.CORS.AllowedOrigins) == 0 {
		return rules
	}
	c := b.Config.CORS
	rule := corsRule{c.AllowedOrigins, c.AllowedMethods, c.AllowedHeaders, c.ExposeHeaders, c.MaxAgeSeconds}
	if len(rule.Methods) == 0 {
		rule.Methods = []string{"GET", "HEAD"}
	}
	return append(rules, rule)
}

// allow returns a rule that lets an origin send a request. The header names come from a preflight.
func (r *request) allow(origin, method string, headers []string) (corsRule, bool) {
	var named *object.Bucket
	if r.level != serviceLevel {
		named, _ = r.named(r.bucketName) // only the console's rule applies to a missing bucket
	}
	for _, rule := range r.server.corsRules(named) {
		allowed := slices.ContainsFunc(rule.Origins, func(pattern string) bool { return matchesPattern(pattern, origin) }) &&
			slices.Contains(rule.Methods, method)
		for _, name := range headers {
			allowed = allowed && slices.ContainsFunc(rule.Headers, func(pattern string) bool {
				return matchesPattern(strings.ToLower(pattern), strings.ToLower(name))
			})
		}
		if allowed {
			return rule, true
		}
	}
	return corsRule{}, false
}

// matchesPattern reports whether a text matches a pattern, which may contain one *.
func matchesPattern(pattern, text string) bool {
	before, after, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	return len(text) >= len(before)+len(after) && strings.HasPrefix(text, before) && strings.HasSuffix(text, after)
}

// allowOrigin lets a page from the request's origin read the response, if a rule allows it.
func (r *request) allowOrigin() {
	origin := r.Header.Get("Origin")
	if origin == "" || r.Method == http.MethodOptions {
		return
	}
	if rule, ok := r.allow(origin, r.Method, nil); ok {
		r.setOrigin(rule, origin)
	}
}

func (r *request) setOrigin(rule corsRule, origin string) {
	header := r.w.Header()
	if slices.Contains(rule.Origins, "*") {
		header.Set("Access-Control-Allow-Origin", "*")
	} else {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Allow-Credentials", "true")
	}
	header.Set("Access-Control-Allow-Methods", strings.Join(rule.Methods, ", "))
	exposed := rule.Expose
	if !slices.ContainsFunc(exposed, func(name string) bool { return strings.EqualFold(name, "ETag") }) {
		exposed = append(slices.Clone(exposed), "ETag")
	}
	header.Set("Access-Control-Expose-Headers", strings.Join(exposed, ", "))
	header.Set("Vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method")
}

// isSeparator reports whether a character separates the names in a header.
func isSeparator(c rune) bool { return c == ',' || unicode.IsSpace(c) }

// preflight tells a browser whether it may send a request.
func (r *request) preflight() error {
	r.operation = operation{name: "OptionsObject"}
	origin, method := r.Header.Get("Origin"), r.Header.Get("Access-Control-Request-Method")
	if origin == "" || method == "" {
		return failf("BadRequest", "Insufficient information. Origin and Access-Control-Request-Method request headers are needed.")
	}
	requested := strings.Join(r.Header.Values("Access-Control-Request-Headers"), ", ")
	names := strings.FieldsFunc(requested, isSeparator)
	rule, ok := r.allow(origin, method, names)
	if !ok {
		return fail("AccessForbidden")
	}
	r.setOrigin(rule, origin)
	header := r.w.Header()
	if len(names) > 0 {
		header.Set("Access-Control-Allow-Headers", strings.Join(names, ", "))
	}
	if rule.MaxAgeSeconds != nil {
		header.Set("Access-Control-Max-Age", strconv.FormatInt(*rule.MaxAgeSeconds, 10))
	}
	return nil
}
