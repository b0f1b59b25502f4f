package db

// Once notes a fact about the whole installation, unless it is noted already. It gives what is noted, and tells whether this call did it;
// of several replicas that try at once, one does.
func (t *Tx) Once(key, value string) (noted string, first bool, err error) {
	n, err := t.Exec(`INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`, key, value)
	if err != nil || n == 1 {
		return value, n == 1, err
	}
	err = t.Row(`SELECT value FROM meta WHERE key = $1`, key).Scan(&noted)
	return noted, false, err
}
