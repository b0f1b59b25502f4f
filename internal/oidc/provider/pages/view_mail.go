package pages

// Forgot is the page that offers to mail a link for setting a new password.
type Forgot struct {
	Base
	Email string
}

func (*Forgot) template() string { return "forgot.html" }

// Email is the page that asks a user to confirm a new email address.
type Email struct {
	Base
	Old, New string
	Path     string
}

func (*Email) template() string { return "email.html" }
