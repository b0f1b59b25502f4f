package name

import (
	"net/netip"
	"regexp"
	"strings"
)

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
