// Package name checks names that users choose and other users read, such as on the consent page.
package name

import (
	"net/netip"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Expected says what Valid accepts, for error messages.
const Expected = "a name that is not blank, without control, bidirectional or invisible characters"

// Valid reports whether a name is not blank and shows all that it contains. Control characters,
// bidirectional formatting and invisible characters can make two names look the same, or change how
// the text around a name reads.
func Valid(s string) bool {
	return utf8.ValidString(s) && strings.TrimSpace(s) != "" && !strings.ContainsFunc(s, isHidden)
}

// isHidden reports whether a character is not shown, or changes how others are shown.
func isHidden(r rune) bool {
	return unicode.IsControl(r) || r == '\u2800' || // a braille pattern without dots
		unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

var bucketPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// ExpectedBucket says what ValidBucket accepts, for error messages.
const ExpectedBucket = "3 to 63 characters of a-z, 0-9, `.` and `-` that begin and end with a letter or digit, " +
	"without `..`, not an IP address, not beginning with `xn--` nor ending with `-s3alias`"

// ValidBucket reports whether S3 accepts a bucket's name.
func ValidBucket(s string) bool {
	_, notAddress := netip.ParseAddr(s)
	return bucketPattern.MatchString(s) && !strings.Contains(s, "..") && notAddress != nil &&
		!strings.HasPrefix(s, "xn--") && !strings.HasSuffix(s, "-s3alias")
}
