package sqlite

// Statements keeps prepared statements by their texts. Once it has Max of them, it drops one for
// each new one.
type Statements[S interface{ Finalize() error }] struct {
	Max    int
	byText map[string]S
}

// Get returns the statement for a text. It reports whether there is one.
func (s *Statements[S]) Get(text string) (S, bool) {
	stmt, ok := s.byText[text]
	return stmt, ok
}

// Put keeps a statement, and finalizes it when it is removed.
func (s *Statements[S]) Put(text string, stmt S) {
	if s.byText == nil {
		s.byText = map[string]S{}
	}
	if len(s.byText) >= s.Max {
		for other := range s.byText {
			s.remove(other)
			break
		}
	}
	s.byText[text] = stmt
}

// Clear removes all statements.
func (s *Statements[S]) Clear() {
	for text := range s.byText {
		s.remove(text)
	}
}

func (s *Statements[S]) remove(text string) {
	_ = s.byText[text].Finalize() // repeats its last run's error
	delete(s.byText, text)
}
