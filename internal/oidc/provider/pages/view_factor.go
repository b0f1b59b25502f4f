package pages

// Factor is the page that asks for a code from an authenticator app during a sign-in.
type Factor struct {
	Base
	Flow, Email string
	// Again links to another way of signing in.
	Again string
	// Passkey means that the user has a passkey.
	Passkey bool
	// Mailed means that the user has just set a password with a mailed link.
	Mailed bool
}

func (*Factor) template() string { return "factor.html" }

// Enrol is the page that adds an authenticator app.
type Enrol struct {
	Base
	Email  string
	Action string
	// Flow is set during a sign-in that requires a second factor. Again then lets another user sign in.
	Flow, Again string
	Setup       string
	Secret      string
	QR          QR
}

func (*Enrol) template() string { return "enrol.html" }

// SetApp sets the fields that describe an authenticator app: the sealed setup for the form, the secret,
// and the QR code with its URI.
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
	// Next links to where the user continues, and NextText labels the link.
	Next, NextText string
}

func (*Recovery) template() string { return "recovery.html" }

// Authenticator is the authenticator app on the account page.
type Authenticator struct {
	Since         string
	RecoveryCodes int
}
