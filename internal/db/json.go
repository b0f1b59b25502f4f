package db

import (
	"database/sql"
	"encoding/json"
	"fmt"
)

// ToJSON returns a value as text for a column. It panics for a value that JSON cannot express.
func ToJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// FromJSON returns a variable for Scan that decodes a column's text into to. NULL leaves it as it is.
func FromJSON(to any) sql.Scanner { return fromJSON{to} }

type fromJSON struct{ to any }

// Scan implements sql.Scanner.
func (f fromJSON) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(v), f.to)
	}
	return fmt.Errorf("%T is not the text of a column", value)
}
