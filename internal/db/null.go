package db

// Null returns nil for the zero value, and otherwise a pointer to the value, for a column that is
// NULL when empty.
func Null[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
