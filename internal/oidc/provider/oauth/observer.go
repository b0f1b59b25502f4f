package oauth

// Observer counts what the provider does. A grant type is "unknown" unless we support it.
type Observer struct {
	// Issued and Refused are called for each response of the token endpoint.
	Issued  func(grantType string)
	Refused func(grantType, code string)
	// LogoutSent is called after each attempt to send a logout token. taken reports whether the client
	// accepted it.
	LogoutSent func(taken bool)
}

// NewObserver returns an observer that counts nothing.
func NewObserver() *Observer {
	return &Observer{Issued: func(string) {}, Refused: func(_, _ string) {}, LogoutSent: func(bool) {}}
}
