package db

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"steward/internal/db/slab"
)

// pgRows are the rows of pgx with our errors; after them the batch they came in is closed, if any.
type pgRows struct {
	pgx.Rows
	batch pgx.BatchResults
	slab  slab.Slab
}

func (r *pgRows) Err() error { return explainPostgres(r.Rows.Err()) }

func (r *pgRows) Close() {
	r.Rows.Close()
	if r.batch != nil {
		r.batch.Close()
	}
}

// Scan does what that of pgx does. Nearly all columns have one of a few types, which are read here, where their texts share memory; others
// are left to pgx.
func (r *pgRows) Scan(dest ...any) error {
	values, fields := r.RawValues(), r.FieldDescriptions()
	if len(dest) != len(values) {
		return fmt.Errorf("db: %d variables for %d columns", len(dest), len(values))
	}
	for i, d := range dest {
		if r.scanUsual(&fields[i], values[i], d) {
			continue
		}
		if err := r.TypeMap().Scan(fields[i].DataTypeOID, fields[i].Format, values[i], d); err != nil {
			return fmt.Errorf("db: column %s: %w", fields[i].Name, err)
		}
	}
	return nil
}

// scanUsual tells whether it could read the value, which for NULL is nil.
func (r *pgRows) scanUsual(f *pgconn.FieldDescription, value []byte, dest any) bool {
	switch d := dest.(type) {
	case *string:
		if value == nil || !isText(f) {
			return false
		}
		r.slab.Set(d, value)
	case **string:
		switch {
		case !isText(f):
			return false
		case value == nil:
			*d = nil
		default:
			r.slab.SetOptional(d, value)
		}
	case *int64:
		if !isInt(f, value) {
			return false
		}
		*d = int64(binary.BigEndian.Uint64(value))
	case *bool:
		if f.DataTypeOID != pgtype.BoolOID || f.Format != pgx.BinaryFormatCode || len(value) != 1 {
			return false
		}
		*d = value[0] != 0
	case *[]byte:
		if !isBytes(f) {
			return false
		}
		if *d = nil; value != nil {
			*d = r.slab.Bytes(value)
		}
	case *sql.RawBytes:
		if !isBytes(f) {
			return false
		}
		*d = value
	default:
		return scanMade(f, value, reflect.ValueOf(dest))
	}
	return true
}

// scanMade is for types made of whole numbers, and for NULL where that is nil.
func scanMade(f *pgconn.FieldDescription, value []byte, dest reflect.Value) bool {
	if dest.Kind() != reflect.Pointer || dest.IsNil() {
		return false
	}
	to := dest.Elem()
	switch {
	case to.Kind() == reflect.Pointer && value == nil:
		to.SetZero()
	case to.Kind() == reflect.Int64 && isInt(f, value):
		to.SetInt(int64(binary.BigEndian.Uint64(value)))
	default:
		return false
	}
	return true
}

func isInt(f *pgconn.FieldDescription, value []byte) bool {
	return f.DataTypeOID == pgtype.Int8OID && f.Format == pgx.BinaryFormatCode && len(value) == 8
}

// isText tells whether a value is its text, as it is in both formats.
func isText(f *pgconn.FieldDescription) bool {
	return f.DataTypeOID == pgtype.TextOID || f.DataTypeOID == pgtype.VarcharOID
}

// isBytes tells whether a value is its bytes.
func isBytes(f *pgconn.FieldDescription) bool {
	return isText(f) || f.DataTypeOID == pgtype.ByteaOID && f.Format == pgx.BinaryFormatCode
}
