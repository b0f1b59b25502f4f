package pages

import "html/template"

// Setup is the page on which the first owner of an installation chooses how to sign in.
type Setup struct {
	Base
	SetupChoice
	MinPassword int
	// NoPasskeys is why passkeys cannot be used here, or "".
	NoPasskeys string
}

// SetupChoice is what the first owner has entered.
type SetupChoice struct {
	// Token is that of the link, once the form was sent.
	Token      string
	Email, Org string
}

func (*Setup) template() string { return "setup.html" }

// takeToken moves the token from the fragment of the address into the form, and removes it from the
// history of the browser. Without scripts, it has to be copied.
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

// Script returns the script of the page.
func (*Setup) Script() template.JS { return takeToken }

// policy allows the script of the page.
func (*Setup) policy() string { return "; script-src " + hashSource(takeToken) }
