package app

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// into parses a text into a field.
func into[T any](field *T, parse func(string) (T, error)) func(string) error {
	return func(text string) error {
		value, err := parse(text)
		if err == nil {
			*field = value
		}
		return err
	}
}

// optional takes an empty text for the zero value.
func optional[T any](parse func(string) (T, error)) func(string) (T, error) {
	return func(text string) (zero T, err error) {
		if text == "" {
			return zero, nil
		}
		return parse(text)
	}
}

// must is a parser's answer: the value when ok, else what would be right.
func must[T any](ok bool, value T, right string) (T, error) {
	if !ok {
		var zero T
		return zero, errors.New("must be " + right)
	}
	return value, nil
}

func filePath(v string) (string, error) {
	return must(strings.TrimSpace(v) != "" && !strings.ContainsRune(v, 0), v, "a path")
}

var hostForm = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)

func isHost(v string) bool {
	_, err := netip.ParseAddr(v)
	// Without a letter it is an IP address with a typo.
	return err == nil || len(v) <= 253 && hostForm.MatchString(strings.ToLower(v)) && strings.ContainsFunc(v, unicode.IsLetter)
}

func address(v string) (string, error) {
	host, port, err := net.SplitHostPort(v)
	_, portErr := strconv.ParseUint(port, 10, 16)
	ok := err == nil && portErr == nil && (host == "" || isHost(host))
	return must(ok, v, "host:port, such as 127.0.0.1:8080 or [::1]:8080; port 0 takes a free one")
}

// origin parses a URL that has nothing behind its host.
func origin(schemes ...string) func(string) (string, error) {
	return func(v string) (string, error) {
		u, err := url.Parse(v)
		ok := err == nil && slices.Contains(schemes, u.Scheme) && isHost(u.Hostname()) && u.User == nil &&
			(u.Path == "" || u.Path == "/") && !strings.ContainsAny(v, "?#") && isPort(u)
		if !ok {
			u = &url.URL{}
		}
		right := strings.Join(schemes, ":// or ") + ":// and a host, without user, path, query or fragment"
		return must(ok, u.Scheme+"://"+strings.ToLower(u.Host), right)
	}
}

// isPort tells whether a URL has a usable port or none; url.Parse takes any digits, and a colon without them.
func isPort(u *url.URL) bool {
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0 || u.Port() == "" && !strings.HasSuffix(u.Host, ":")
}

func domain(v string) (string, error) {
	_, err := netip.ParseAddr(v)
	return must(err != nil && isHost(v), strings.ToLower(v), "a domain name, such as s3.example.com, without scheme and port")
}

func databaseURL(v string) (Secret, error) {
	u, err := url.Parse(v) // its error would show the password
	ok := err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") && u.Opaque == ""
	return must(ok, Secret(v), "postgres://user:password@host:port/database")
}

func logFormat(v string) (LogFormat, error) {
	f := LogFormat(v)
	return must(f == LogText || f == LogJSON, f, "text or json")
}

func logLevel(v string) (slog.Level, error) {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[v]
	return must(ok, level, "debug, info, warn or error")
}

func rate(v string) (float64, error) {
	n, err := strconv.ParseFloat(v, 64)
	return must(err == nil && n >= 0 && !math.IsInf(n, 0), n, "a number, 0 or more")
}

func ingestLimit(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	// A row of SQLite holds 10^9 bytes, and a body comes with headers and the rest of its receipt.
	return must(err == nil && n >= 1 && n <= 1<<29, n, "a number of bytes from 1 to 536870912")
}

// duration knows days, too, which Go's own form does not: 30d, 1d12h.
func duration(v string) (time.Duration, error) {
	const day = 24 * time.Hour
	head, rest, hasDays := strings.Cut(v, "d")
	days, err := uint64(0), error(nil)
	if hasDays {
		days, err = strconv.ParseUint(head, 10, 16) // so few that a sum that overflows is negative, and refused
	} else {
		rest = v
	}
	var d time.Duration
	if rest != "" || !hasDays {
		var restErr error
		d, restErr = time.ParseDuration(rest)
		err = errors.Join(err, restErr)
	}
	d += time.Duration(days) * day
	return must(err == nil && d > 0, d, "a time above zero, such as 30d, 12h or 1d12h")
}

func prefixes(v string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	ok := true
	for item := range strings.SplitSeq(v, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(item))
		// 10.1.2.3/8 opens more than its writer saw; an IPv4 address in IPv6 form would match nothing.
		ok = ok && err == nil && p == p.Masked() && !p.Addr().Is4In6()
		all = append(all, p)
	}
	return must(ok, all, "networks with commas between, such as 10.0.0.0/8,fd00::/8, with zeros behind the prefix; one address is 10.1.2.3/32")
}

func truth(v string) (bool, error) {
	b, err := strconv.ParseBool(v)
	return must(err == nil, b, "true or false")
}

// rootKey takes what can travel in an Authorization header.
func rootKey(v string) (Secret, error) {
	unfit := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	ok := utf8.ValidString(v) && utf8.RuneCountInString(v) >= 20 && !strings.ContainsFunc(v, unfit)
	return must(ok, Secret(v), "20 or more characters, without spaces")
}

func masterKey(v string) (Secret, error) {
	decoders := []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString,
		base64.URLEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	}
	for _, decode := range decoders {
		if key, err := decode(v); err == nil && len(key) == 32 {
			return Secret(key), nil
		}
	}
	return must(false, Secret(""), "32 bytes in base64 or hex; `openssl rand -base64 32` makes one")
}

func masterKeys(v string) ([]Secret, error) {
	var all []Secret
	for item := range strings.SplitSeq(v, ",") {
		key, err := masterKey(strings.TrimSpace(item))
		if err != nil {
			return nil, errors.New("must be keys of 32 bytes each, in base64 or hex, with commas between")
		}
		all = append(all, key)
	}
	return all, nil
}

func email(v string) (string, error) {
	a, err := mail.ParseAddress(v)
	return must(err == nil && a.Address == v, v, "an e-mail address, such as owner@example.com")
}

func password(v string) (Secret, error) {
	return must(utf8.ValidString(v) && utf8.RuneCountInString(v) >= 8, Secret(v), "8 or more characters")
}
