package sqlite

// Statements keeps prepared statements by their texts. When there are Max of them, one makes room for
// the next.
type Statements[S interface{ Finalize() error }] struct {
	Max    int
	byText map[string]S
}

// Get returns the statement of a text. It reports whether there is one.
func (s *Statements[S]) Get(text string) (S, bool) {
	stmt, ok := s.byText[text]
	return stmt, ok
}

// Put keeps a statement, which is finalized when it is removed.
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
	_ = s.byText[text].Finalize() // repeats the error of its last run
	delete(s.byText, text)
}
