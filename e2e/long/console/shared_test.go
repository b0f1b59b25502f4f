package console

import (
	"testing"

	"steward/e2e/installation"
)

// TestConsole runs tests on one installation, since they do not disturb each other: each has its own browser
// session, webhooks and names. Tests that look at everything an organization has start an installation each.
func TestConsole(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	for name, test := range map[string]func(t *testing.T, s *installation.Steward){
		"CannotBeFramed":                   testCannotBeFramed,
		"CopiesCommandsThatRunNothingElse": testCopiesCommandsThatRunNothingElse,
		"CopiesReceiptsAsCurl":             testCopiesReceiptsAsCurl,
		"FindsReceipts":                    testFindsReceipts,
		"FirstLoadIsSmall":                 testFirstLoadIsSmall,
		"KeepsItsCookieFromScripts":        testKeepsItsCookieFromScripts,
		"ReturnsToItsOwnPagesOnly":         testReturnsToItsOwnPagesOnly,
		"RootLeadsBrowsersToTheConsole":    testRootLeadsBrowsersToTheConsole,
		"SaysOnceThatTheSessionHasEnded":   testSaysOnceThatTheSessionHasEnded,
		"ServesTheRouteTableOnly":          testServesTheRouteTableOnly,
		"ShellByKeyboard":                  testShellByKeyboard,
		"ShowsTheFirstRequest":             testShowsTheFirstRequest,
		"StreamEndsWithTheSession":         testStreamEndsWithTheSession,
		"StreamKeepsTheNewest":             testStreamKeepsTheNewest,
		"StreamPauses":                     testStreamPauses,
		"StreamSaysThatItIsBehind":         testStreamSaysThatItIsBehind,
		"StreamsWhatArrives":               testStreamsWhatArrives,
		"UnknownTabIsTheFirst":             testUnknownTabIsTheFirst,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s.In(t))
		})
	}
}
