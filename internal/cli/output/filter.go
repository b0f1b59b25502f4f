package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/itchyny/gojq"
)

// Filter is a jq expression that is applied to JSON before it is printed.
type Filter struct{ code *gojq.Code }

// ParseFilter parses a jq expression.
func ParseFilter(expression string) (*Filter, error) {
	query, err := gojq.Parse(expression)
	if err != nil {
		return nil, err
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, err
	}
	return &Filter{code}, nil
}

// writeFiltered prints the filter's results for a document, one on each line.
func (p *Printer) writeFiltered(raw json.RawMessage) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return fmt.Errorf("the server's response is not JSON: %w", err)
	}
	results := p.Filter.code.Run(document)
	for {
		result, ok := results.Next()
		if !ok {
			return nil
		}
		if err, failed := result.(error); failed {
			var halt *gojq.HaltError
			if errors.As(err, &halt) && halt.Value() == nil {
				return nil
			}
			return fmt.Errorf("--jq: %w", err)
		}
		line, isText := result.(string)
		switch {
		case !isText:
			text, err := gojq.Marshal(result)
			if err != nil {
				return fmt.Errorf("--jq: %w", err)
			}
			line = string(text)
		case p.Width > 0:
			line = withoutControls(line)
		}
		if _, err := io.WriteString(p.Out, line+"\n"); err != nil {
			return err
		}
	}
}

// withoutControls returns a text without control characters other than line breaks and tabs.
func withoutControls(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return -1
		}
		return r
	}, s)
}
