package redis

// globMatch reports whether a text matches a pattern with Redis's syntax: * ? [a-z] [^a], and \ to
// escape the next character. Its time is at most proportional to the product of both lengths. An empty
// text matches only an empty pattern.
func globMatch(pattern, text string) bool {
	if text == "" {
		return pattern == ""
	}
	p, t := 0, 0
	star, retry := -1, 0 // the last *, and the position where its retry starts in the text
	for t < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			star = p
			retry = t
			p++
			continue
		}
		if n, ok := globOne(pattern[p:], text[t]); ok {
			p += n
			t++
			continue
		}
		if star < 0 {
			return false
		}
		retry++
		p = star + 1
		t = retry
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// globOne reports whether a pattern's first element matches a character, and returns the element's
// length.
func globOne(pattern string, c byte) (int, bool) {
	if pattern == "" {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		return globClass(pattern, c)
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == c
		}
	}
	return 1, pattern[0] == c
}

// globClass is like globOne for a character class. An unclosed class ends with the pattern.
func globClass(pattern string, c byte) (int, bool) {
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	found := false
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			found = found || pattern[i] == c
		case i+2 < len(pattern) && pattern[i+1] == '-':
			low, high := min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2])
			found = found || low <= c && c <= high
			i += 2
		default:
			found = found || pattern[i] == c
		}
	}
	return min(i+1, len(pattern)), found != not
}
