package config

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
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

	"steward/internal/account"
	"steward/internal/blob"
	"steward/internal/id"
	smtp "steward/internal/mail"
	"steward/internal/object"
	"steward/internal/object/s3"
	"steward/internal/oidc/upstream"
)

// into returns a function that parses a text into a field.
func into[T any](field *T, parse func(string) (T, error)) func(string) error {
	return func(text string) error {
		value, err := parse(text)
		if err != nil {
			return err
		}
		*field = value
		return nil
	}
}

// optional returns a parser that maps the empty text to the zero value.
func optional[T any](parse func(string) (T, error)) func(string) (T, error) {
	return func(text string) (T, error) {
		if text == "" {
			var zero T
			return zero, nil
		}
		return parse(text)
	}
}

// mustBe returns a parser's error, which names the allowed values.
func mustBe(what string) error { return errors.New("must be " + what) }

func filePath(v string) (string, error) {
	if strings.TrimSpace(v) == "" || strings.ContainsRune(v, 0) {
		return "", mustBe("a path")
	}
	return v, nil
}

var hostName = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)

// isHost reports whether v is an IP address or a host name. A name without letters is an IP address
// with a typo.
func isHost(v string) bool {
	if _, err := netip.ParseAddr(v); err == nil {
		return true
	}
	return len(v) <= 253 && hostName.MatchString(strings.ToLower(v)) && strings.ContainsFunc(v, unicode.IsLetter)
}

// splitAddress splits host:port. The host may be empty and the port 0.
func splitAddress(v string) (host string, port uint64, ok bool) {
	host, text, err := net.SplitHostPort(v)
	if err != nil || host != "" && !isHost(host) {
		return "", 0, false
	}
	port, err = strconv.ParseUint(text, 10, 16)
	return host, port, err == nil
}

func address(v string) (string, error) {
	if _, _, ok := splitAddress(v); !ok {
		return "", mustBe("host:port, such as 127.0.0.1:8080 or [::1]:8080; port 0 picks a free port")
	}
	return v, nil
}

// dialable parses a host and a port that another machine can connect to.
func dialable(v string) (string, error) {
	host, port, ok := splitAddress(v)
	if !ok || port == 0 || isUnspecified(host) {
		return "", mustBe("host:port at which other replicas reach this one, such as 10.0.0.7:7000")
	}
	return v, nil
}

// isUnspecified reports whether a host stands for all interfaces.
func isUnspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// origin returns a parser for URLs that end with the host.
func origin(schemes ...string) func(string) (string, error) {
	want := strings.Join(schemes, ":// or ") + ":// and a host, without user, path, query or fragment"
	return func(v string) (string, error) {
		u, err := url.Parse(v)
		if err != nil || !slices.Contains(schemes, u.Scheme) || !isHost(u.Hostname()) || !validPort(u) {
			return "", mustBe(want)
		}
		if u.User != nil || u.Path != "" && u.Path != "/" || strings.ContainsAny(v, "?#") {
			return "", mustBe(want)
		}
		return u.Scheme + "://" + strings.ToLower(u.Host), nil
	}
}

// validPort reports whether a URL has a usable port or none; url.Parse accepts any digits, and a
// colon without digits.
func validPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0
}

func domain(v string) (string, error) {
	if _, err := netip.ParseAddr(v); err == nil || !isHost(v) {
		return "", mustBe("a domain name, such as s3.example.com, without scheme and port")
	}
	return strings.ToLower(v), nil
}

func databaseURL(v string) (Secret, error) {
	u, err := url.Parse(v) // err contains the password
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Opaque != "" {
		return "", mustBe("postgres://user:password@host:port/database")
	}
	return Secret(v), nil
}

// oneOf returns a parser that accepts these words.
func oneOf[T ~string](want string, words ...T) func(string) (T, error) {
	return func(v string) (T, error) {
		if slices.Contains(words, T(v)) {
			return T(v), nil
		}
		return "", mustBe(want)
	}
}

func logLevel(v string) (slog.Level, error) {
	switch v {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, mustBe("debug, info, warn or error")
}

// integer parses a number within bounds. The error contains want.
func integer(v string, least, most int64, want string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < least || n > most {
		return 0, mustBe(want)
	}
	return n, nil
}

// decimal parses a number from 0 on. The error contains want.
func decimal(v string, most float64, want string) (float64, error) {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !(n >= 0 && n <= most) { // NaN is neither
		return 0, mustBe(want)
	}
	return n, nil
}

func rate(v string) (float64, error) { return decimal(v, math.MaxFloat64, "a number, 0 or more") }

func ratio(v string) (float64, error) { return decimal(v, 1, "a number from 0 to 1") }

// maxIngestLimit leaves room for headers and the rest of a receipt in a SQLite row, which holds 10^9
// bytes.
const maxIngestLimit = 1 << 29

func ingestLimit(v string) (int64, error) {
	return integer(v, 1, maxIngestLimit, "a number of bytes from 1 to "+strconv.Itoa(maxIngestLimit))
}

func diskReserve(v string) (int64, error) {
	return integer(v, 0, math.MaxInt64, "a number of bytes, or 0 for no reserve")
}

// minKVMemory is the smallest memory for a key-value store.
const minKVMemory = 1 << 20

func kvMemory(v string) (int64, error) {
	want := "a number of bytes, " + strconv.Itoa(minKVMemory) + " or more, or 0 for a quarter of the memory"
	if n, err := integer(v, 0, 0, want); err == nil {
		return n, nil
	}
	return integer(v, minKVMemory, math.MaxInt64, want)
}

func kvStoreMemory(v string) (int64, error) {
	return integer(v, minKVMemory, math.MaxInt64, "a number of bytes, "+strconv.Itoa(minKVMemory)+" or more")
}

// duration parses Go's durations, with days in front: 30d, 1d12h.
func duration(v string) (time.Duration, error) {
	wrong := mustBe("a duration above zero, such as 30d, 12h or 1d12h")
	var total time.Duration
	days, rest, found := strings.Cut(v, "d")
	if found {
		n, err := strconv.ParseUint(days, 10, 16) // small enough for an overflowing sum to be negative
		if err != nil {
			return 0, wrong
		}
		total = time.Duration(n) * 24 * time.Hour
	} else {
		rest = v
	}
	if rest != "" || !found {
		d, err := time.ParseDuration(rest)
		if err != nil {
			return 0, wrong
		}
		total += d
	}
	if total <= 0 {
		return 0, wrong
	}
	return total, nil
}

// maxDrainDelay is the maximum for --drain-delay.
const maxDrainDelay = 5 * time.Minute

func drainDelay(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 || d > maxDrainDelay {
		return 0, mustBe("a duration from 0 to 5m, such as 3s")
	}
	return d, nil
}

// prefixes refuses 10.1.2.3/8, which is more than its author meant, and IPv4 addresses in IPv6 form,
// which match nothing.
func prefixes(v string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for item := range strings.SplitSeq(v, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(item))
		if err != nil || p != p.Masked() || p.Addr().Is4In6() {
			return nil, mustBe("networks separated by commas, such as 10.0.0.0/8,fd00::/8, without host bits; " +
				"one address is 10.1.2.3/32")
		}
		all = append(all, p)
	}
	return all, nil
}

func boolValue(v string) (bool, error) {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, mustBe("true or false")
	}
	return b, nil
}

// rootKey accepts text that an Authorization header can carry.
func rootKey(v string) (Secret, error) {
	unfit := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	if !utf8.ValidString(v) || utf8.RuneCountInString(v) < 20 || strings.ContainsFunc(v, unfit) {
		return "", mustBe("20 or more characters, without spaces")
	}
	return Secret(v), nil
}

func commandLine(v string) (string, error) {
	if strings.TrimSpace(v) == "" || strings.ContainsRune(v, 0) {
		return "", mustBe("a command")
	}
	return v, nil
}

// ParseMasterKey returns a master key's bytes from base64 or hex. The error does not contain the
// text.
func ParseMasterKey(text string) (Secret, error) { return masterKey(strings.TrimSpace(text)) }

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
	return "", mustBe("32 bytes in base64 or hex; create one with `openssl rand -base64 32`")
}

func masterKeys(v string) ([]Secret, error) {
	var all []Secret
	for item := range strings.SplitSeq(v, ",") {
		key, err := masterKey(strings.TrimSpace(item))
		if err != nil {
			return nil, mustBe("keys of 32 bytes in base64 or hex, separated by commas")
		}
		all = append(all, key)
	}
	return all, nil
}

// sessionIdle parses a duration that lasts while a user reads a page.
func sessionIdle(v string) (time.Duration, error) {
	d, err := duration(v)
	if err != nil || d < 5*time.Minute {
		return 0, mustBe("a duration from 5m on, such as 12h")
	}
	return d, nil
}

func email(v string) (string, error) {
	a, err := mail.ParseAddress(v)
	if err != nil || a.Address != v {
		return "", mustBe("an e-mail address, such as owner@example.com")
	}
	return v, nil
}

func mailFrom(v string) (string, error) {
	if _, err := mail.ParseAddress(v); err != nil || strings.ContainsFunc(v, unicode.IsControl) {
		return "", mustBe("an e-mail address, such as Steward <steward@example.com>")
	}
	return v, nil
}

func smtpURL(v string) (Secret, error) {
	if _, err := smtp.ParseURL(v); err != nil {
		return "", mustBe(err.Error())
	}
	return Secret(v), nil
}

func password(v string) (Secret, error) {
	if !utf8.ValidString(v) || utf8.RuneCountInString(v) < account.MinPassword || len(v) > account.MaxPassword {
		return "", mustBe(fmt.Sprintf("%d or more characters", account.MinPassword))
	}
	return Secret(v), nil
}

func blobURL(v string) (*blob.S3Options, error) {
	options, err := blob.ParseS3URL(v)
	if err != nil {
		return nil, mustBe("a URL such as s3://bucket/prefix?endpoint=https://host")
	}
	return &options, nil
}

func blobCredential(v string) (Secret, error) {
	if v == "" || strings.ContainsFunc(v, unicode.IsSpace) {
		return "", mustBe("a key without spaces")
	}
	return Secret(v), nil
}

func presignExpiry(v string) (time.Duration, error) {
	d, err := duration(v)
	if err != nil || d < time.Second || d > s3.MaxExpiry {
		return 0, mustBe("a duration from 1s to 7d")
	}
	return d, nil
}

// storagePrices parses prices by tier.
func storagePrices(v string) (map[object.Tier]float64, error) {
	wrong := mustBe("prices by tier, such as STANDARD=0.02,INFREQUENT_ACCESS=0.01,ARCHIVE=0.004")
	prices := map[object.Tier]float64{}
	for entry := range strings.SplitSeq(v, ",") {
		tier, text, _ := strings.Cut(strings.TrimSpace(entry), "=")
		price, err := rate(text)
		if _, known := object.DefaultPrices()[object.Tier(tier)]; !known || err != nil {
			return nil, wrong
		}
		prices[object.Tier(tier)] = price
	}
	return prices, nil
}

// upstreamDomains parses the organizations that domains are granted to, by domain. A domain without
// an organization is granted to the first one, which has the id "" here.
func upstreamDomains(v string) (map[string]string, error) {
	granted := map[string]string{}
	for entry := range strings.SplitSeq(v, ",") {
		orgID, domain, named := strings.Cut(strings.TrimSpace(entry), "=")
		if !named {
			domain = orgID
			orgID = ""
		}
		_, twice := granted[domain]
		if twice || named && !id.Is(id.Org, orgID) || !upstream.ValidDomain(domain) {
			return nil, mustBe("domains of e-mail addresses, each once, with the id of an organization or for the first one, " +
				"such as example.com,org_01jcq3r0b3d6g9j2m5p8s1v4xz=example.org")
		}
		granted[domain] = orgID
	}
	return granted, nil
}
