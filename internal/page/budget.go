package page

// MaxBytes is one page's budget for large fields: payloads, user data, results, response bodies.
const MaxBytes = 8 << 20

// Budget counts the bytes in a page's large fields. The zero value is ready to use.
type Budget struct{ used int }

// Take reports whether the page is still below MaxBytes, and if so counts a field of n bytes. A row
// that gets false is listed without the field and with `<field>_omitted: true`, and so are all rows
// after it.
func (b *Budget) Take(n int) bool {
	if b.used >= MaxBytes {
		return false
	}
	b.used += n
	return true
}
