package thread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/thread/state"
)

const (
	// maxLockedMerge is the largest user_data that we merge while the row is locked; on SQLite, all
	// other writers wait meanwhile.
	maxLockedMerge = 64 << 10
	// maxOptimisticMerges caps the attempts to merge a larger one without a lock.
	maxOptimisticMerges = 3
)

// save sets a thread's user_data and metadata, as far as they were sent.
func (s *Store) save(ctx context.Context, caller *auth.Caller, d frameData) (*string, error) {
	e, err := s.newEdit(ctx, caller, d)
	if err != nil {
		return nil, err
	}
	return nil, s.write(ctx, caller, e)
}

// merge applies operations to the state in a thread's user_data. A small state is merged while the
// row is locked. A large one is merged without a lock and written if the thread is still the same,
// or after several conflicts while the row is locked.
func (s *Store) merge(ctx context.Context, caller *auth.Caller, d frameData) (*string, error) {
	if err := state.Check(d.Operations); err != nil {
		return nil, err
	}
	e, err := s.newEdit(ctx, caller, frameData{ThreadID: d.ThreadID, Metadata: d.Metadata})
	if err != nil {
		return nil, err
	}
	e.merge = func(userData *string) (string, error) {
		var metadata *json.RawMessage
		if e.metadata != nil {
			metadata = (*json.RawMessage)(&e.metadata.text)
		}
		return state.Merge(userData, d.Operations, metadata, MaxText)
	}
	size := 0
	for _, op := range d.Operations {
		size += len(op.Value)
	}
	for range maxOptimisticMerges {
		merged, err := s.mergeWithoutLock(ctx, caller, e, size)
		if err != nil {
			return nil, err
		}
		if merged == nil {
			break
		}
		if err := s.write(ctx, caller, *merged); !errors.Is(err, errStale) {
			return nil, err
		}
	}
	return nil, s.write(ctx, caller, e)
}

// mergeWithoutLock returns an edit with the result of a large merge, or nil if the merge is small.
func (s *Store) mergeWithoutLock(ctx context.Context, caller *auth.Caller, e edit, size int) (*edit, error) {
	version, sealed, err := s.largeUserData(ctx, caller, e.id, maxLockedMerge-size)
	if err != nil {
		return nil, err
	}
	if sealed == nil && size <= maxLockedMerge {
		return nil, nil
	}
	before, err := s.open(threadData, sealed)
	if err != nil {
		return nil, err
	}
	after, err := e.merge(before)
	if err != nil {
		return nil, err
	}
	e.merge = nil
	e.userData = sealText(s.Ring, threadData, &after)
	e.version = &version
	return &e, nil
}

// largeUserData returns a thread's version, 0 if the caller sees none, and its sealed user_data if that
// has more than limit bytes.
func (s *Store) largeUserData(
	ctx context.Context, caller *auth.Caller, threadID string, limit int,
) (int64, []byte, error) {
	var version int64
	var sealed []byte
	err := s.DB.Read(ctx).Row(`SELECT version, CASE WHEN user_data_size > $3 THEN user_data ELSE NULL END FROM threads
		WHERE org_id = $1 AND id = $2 AND ($4 = '' OR project_id = $4)`, caller.OrgID, threadID, limit, caller.ProjectID).
		Scan(&version, &sealed)
	if errors.Is(err, db.ErrNoRows) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, fmt.Errorf("get user_data: %w", err)
	}
	return version, sealed, nil
}

// newEdit returns the edit for a save. It returns Invalid for values that we cannot store, and errors
// from Decoding.
func (s *Store) newEdit(ctx context.Context, caller *auth.Caller, d frameData) (edit, error) {
	e := edit{id: d.ThreadID}
	err := s.Decoding.Do(ctx, caller.OrgID, d.Metadata.Value, func() error {
		var faults errs.Faults
		if text := d.UserData.Ptr(); text != nil {
			checkUserData(&faults, "data.user_data", *text)
		}
		if d.Metadata.Sent {
			metadata := checkMetadata(&faults, "data.metadata", d.Metadata.Value)
			e.metadata = &metadata
		}
		return faults.Err()
	})
	if err != nil {
		return edit{}, err
	}
	if d.UserData.Sent {
		e.userData = sealText(s.Ring, threadData, d.UserData.Ptr())
	}
	return e, nil
}

// restore returns a thread's user_data, or nil if there is none or no such thread.
func (s *Store) restore(ctx context.Context, caller *auth.Caller, d frameData) (*string, error) {
	t, err := s.Get(ctx, caller, d.ThreadID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, nil
	}
	return t.UserData, err
}

// deleteIfExists deletes a thread if there is one: a runtime that missed the response tries again.
func (s *Store) deleteIfExists(ctx context.Context, caller *auth.Caller, d frameData) (*string, error) {
	err := s.Delete(ctx, caller, d.ThreadID, page.IfMatch{})
	if errs.KindOf(err) == errs.NotFound {
		return nil, nil
	}
	return nil, err
}
