package libsql

import (
	"encoding/json"
	"testing"
)

// TestOnlySingleStatementsShareCommits verifies which pipelines can share a commit: no transaction, no
// batch, nothing that follows on the same connection.
func TestOnlySingleStatementsShareCommits(t *testing.T) {
	const stmt = `{"type":"execute","stmt":{"sql":"INSERT INTO t VALUES (1)"}}`
	for body, want := range map[string]bool{
		`{"requests":[` + stmt + `,{"type":"close"}]}`:                                   true,
		`{"baton":null,"requests":[` + stmt + `,{"type":"close"}]}`:                      true,
		`{"baton":"b","requests":[` + stmt + `,{"type":"close"}]}`:                       false,
		`{"requests":[` + stmt + `]}`:                                                    false,
		`{"requests":[]}`:                                                                false,
		`{"requests":[` + stmt + `,` + stmt + `,{"type":"close"}]}`:                      false,
		`{"requests":[` + stmt + `,` + stmt + `]}`:                                       false,
		`{"requests":[{"type":"close"},` + stmt + `]}`:                                   false,
		`{"requests":[{"type":"batch","batch":{"steps":[]}},{"type":"close"}]}`:          false,
		`{"requests":[{"type":"sequence","sql":"INSERT"},{"type":"close"}]}`:             false,
		`{"requests":[` + stmt + `,{"type":"close"},{"type":"get_autocommit"}]}`:         false,
		`{"requests":[{"type":"store_sql","sql":"x","sql_id":1},` + stmt + `]}`:          false,
		`{"requests":[{"type":"execute","stmt":{"sql_id":1}},` + `{"type":"describe"}]}`: false,
	} {
		var p pipeline
		must(t, json.Unmarshal([]byte(body), &p))
		p.decodeFew()
		if got := p.single() != nil; got != want {
			t.Errorf("%s: got %v", body, got)
		}
	}
}
