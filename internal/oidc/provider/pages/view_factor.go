package pages

import (
	"fmt"
	"image/color"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// Factor is the page where a user enters a code from the authenticator app to sign in.
type Factor struct {
	Base
	Flow, Email string
	// Again is the page where the user can sign in another way.
	Again string
	// Passkey reports whether the user has a passkey.
	Passkey bool
	// Mailed reports whether the user has just set a password with a mailed link.
	Mailed bool
}

func (*Factor) template() string { return "factor.html" }

// Enrol is the page where a user adds an authenticator app.
type Enrol struct {
	Base
	Email  string
	Action string
	// Flow is set during a sign-in that requires a second factor. Again is then the page where another
	// user can sign in.
	Flow, Again string
	Setup       string
	Secret      string
	QR          QR
}

func (*Enrol) template() string { return "enrol.html" }

// SetApp fills in an authenticator app: the sealed setup that the form carries, the secret, and the URI
// in the QR code.
func (e *Enrol) SetApp(setup, secret, uri string) (err error) {
	e.Setup = setup
	e.Secret = secret
	e.QR, err = NewQR(uri)
	return err
}

// Recovery is the page that shows recovery codes.
type Recovery struct {
	Base
	Codes []string
	// Next is the page where the user continues, and NextText its name.
	Next, NextText string
}

func (*Recovery) template() string { return "recovery.html" }

// Authenticator is the authenticator app on the account page.
type Authenticator struct {
	Since         string
	RecoveryCodes int
}

// QR is a QR code to draw: dark squares, each one unit wide, in a square Size units wide.
type QR struct {
	Size int
	// Path is the data for an SVG path.
	Path string
}

// quietZone is the light border around a QR code, in units. Scanners need it.
const quietZone = 4

// NewQR returns a text's QR code.
func NewQR(text string) (QR, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return QR{}, fmt.Errorf("encode QR code: %w", err)
	}
	var path strings.Builder
	size := code.Bounds().Dx()
	for y := range size {
		for x := range size {
			if code.At(x, y) == color.Black {
				fmt.Fprintf(&path, "M%d %dh1v1h-1z", x+quietZone, y+quietZone)
			}
		}
	}
	return QR{Size: size + 2*quietZone, Path: path.String()}, nil
}
