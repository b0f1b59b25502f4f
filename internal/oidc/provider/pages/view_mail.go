package pages

// Forgot is the page where a user asks for a link to set a new password.
type Forgot struct {
	Base
	Email string
}

func (*Forgot) template() string { return "forgot.html" }

// Email is the page where a user confirms a new email address.
type Email struct {
	Base
	Old, New string
	Path     string
}

func (*Email) template() string { return "email.html" }
