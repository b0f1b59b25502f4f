package libsql

import "steward/internal/budget"

// texts holds the SQL texts that a stream stores. They are charged, and limited in bytes.
type texts struct {
	*budget.Charge
	limit int
	byID  map[int32]string
}

// textOverhead is added to each stored text's length, so that the limit also applies to empty texts.
const textOverhead = 100

// of returns the request's SQL text: its own, or a stored one.
func (t *texts) of(in *stmt) (string, error) {
	switch {
	case (in.SQL == nil) == (in.SQLID == nil):
		return "", failf("HRANA_PROTO_ERROR", "expected either sql or sql_id")
	case in.SQL != nil:
		return *in.SQL, nil
	}
	text, ok := t.byID[*in.SQLID]
	if !ok {
		return "", failf("SQL_NOT_FOUND", "no SQL text is stored with id %d", *in.SQLID)
	}
	return text, nil
}

func (t *texts) store(in *stmt) error {
	if in.SQL == nil || in.SQLID == nil {
		return failf("HRANA_PROTO_ERROR", "expected sql and sql_id")
	}
	if _, taken := t.byID[*in.SQLID]; taken {
		return failf("SQL_ID_IN_USE", "an SQL text is stored with id %d already", *in.SQLID)
	}
	size := int64(len(*in.SQL) + textOverhead)
	if t.Used()+size > int64(t.limit) {
		return failf("SQL_STORE_FULL", "the stored SQL texts are longer than %d bytes", t.limit)
	}
	if !t.Take(size) {
		return errOutOfMemory
	}
	if t.byID == nil {
		t.byID = map[int32]string{}
	}
	t.byID[*in.SQLID] = *in.SQL
	return nil
}

func (t *texts) remove(in *stmt) error {
	if in.SQLID == nil {
		return failf("HRANA_PROTO_ERROR", "expected sql_id")
	}
	if text, ok := t.byID[*in.SQLID]; ok {
		t.Return(int64(len(text) + textOverhead))
		delete(t.byID, *in.SQLID)
	}
	return nil
}
