package db

// Null returns a pointer to a value for a column that is NULL where there is none: nil for the zero value.
func Null[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
