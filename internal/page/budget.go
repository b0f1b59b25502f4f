package page

// MaxBytes bounds the large fields (payloads, user data, results, response bodies) of one page.
const MaxBytes = 8 << 20

// Budget counts the bytes of a page's large fields. The zero value is ready to use.
type Budget struct{ used int }

// Take reports whether a field of n bytes is still within MaxBytes, and counts it. A row whose field is refused is listed without
// it, and says so in `<field>_omitted`; once one was refused, all later ones are, so that a page never alternates.
func (b *Budget) Take(n int) bool {
	if b.used >= MaxBytes {
		return false
	}
	b.used += n
	return true
}
