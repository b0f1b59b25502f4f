package pages

import "html/template"

// Setup is the page that asks an installation's first owner how to sign in.
type Setup struct {
	Base
	SetupChoice
	MinPassword int
	// NoPasskeys says why passkeys do not work here, or is "".
	NoPasskeys string
}

// SetupChoice holds what the first owner has entered.
type SetupChoice struct {
	// Token is the link's token, once the owner has sent the form.
	Token      string
	Email, Org string
}

func (*Setup) template() string { return "setup.html" }

// takeToken moves the token from the address's fragment into the form, and removes it from the browser's
// history. Without scripts, the owner must copy it.
const takeToken = `function take() {
  const field = document.getElementById('token');
  if (location.hash.length > 1) {
    field.value = location.hash.slice(1);
    history.replaceState(null, '', location.pathname);
  }
  document.getElementById('code').hidden = field.value !== '';
}
take();
addEventListener('hashchange', take);`

// Script returns the page's script.
func (*Setup) Script() template.JS { return takeToken }

// policy allows the page's script.
func (*Setup) policy() string { return "; script-src " + hashSource(takeToken) }
