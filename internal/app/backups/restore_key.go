package backups

import (
	"bytes"
	"io"

	"steward/internal/backup"
	"steward/internal/errs"
	"steward/internal/seal"
)

// readKey reads the master key from a backup that has it.
func (r *restoring) readKey(p *backup.Part) error {
	key, err := io.ReadAll(io.LimitReader(p, maxKeyLength))
	if err != nil {
		return err
	}
	if given := []byte(r.cfg.MasterKey); len(given) > 0 && !bytes.Equal(given, key) {
		return errs.New(errs.Conflict, "the backup has another master key than the one in STEWARD_MASTER_KEY; unset that, or use the right one")
	}
	r.key = key
	r.writeKey = true
	return nil
}

// useKey finds the master key, and returns an error unless the backup was made with it.
func (r *restoring) useKey() (err error) {
	if r.key == nil {
		r.key = []byte(r.cfg.MasterKey)
	}
	if len(r.key) == 0 {
		if r.key, err = r.askKey(); err != nil {
			return err
		}
		r.writeKey = true
	}
	keys := [][]byte{r.key}
	for _, old := range r.cfg.OldMasterKeys {
		keys = append(keys, []byte(old))
	}
	ring, err := seal.NewRing(keys...)
	if err != nil {
		return err
	}
	if want := r.in.Header().KeyID; !ring.HasKey(want) {
		return errs.New(errs.Conflict, "the master key is wrong: the backup was made with the key %q, and this one is %s", want, ring.KeyID())
	}
	r.ring = ring
	return nil
}
