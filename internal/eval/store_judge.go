package eval

import (
	"context"

	"steward/internal/db"
)

// judgeBatch caps the results that one transaction judges.
const judgeBatch = 500

// judgeRuns reads passed and score from results that an earlier version stored, before the upgrade or
// on a replica that still runs beside this one.
func (s *Store) judgeRuns(ctx context.Context) error {
	type judged struct {
		OrgID, ID string
		Passed    *bool
		Score     *float64
	}
	scan := func(row db.Row) (j judged, err error) {
		var result []byte
		if err := row.Scan(&j.OrgID, &j.ID, &result); err != nil {
			return j, err
		}
		v := judge(result)
		j.Passed = v.passed
		j.Score = v.score
		return j, nil
	}
	for last := (judged{}); ; {
		runs, err := db.Collect(s.DB.Read(ctx), scan, `SELECT org_id, id, result FROM eval_runs
			WHERE NOT judged AND result IS NOT NULL AND (org_id, id) > ($1, $2) ORDER BY org_id, id LIMIT $3`,
			last.OrgID, last.ID, judgeBatch)
		if err != nil || len(runs) == 0 {
			return err
		}
		if err := s.DB.Write(ctx, func(tx *db.Tx) error {
			return db.Bulk[judged](runs).Send(tx, `UPDATE eval_runs
				SET passed = v.passed, score = v.score, judged = true, version = version + 1
				{FROM v} WHERE eval_runs.org_id = v.org_id AND eval_runs.id = v.id AND NOT judged`)
		}); err != nil {
			return err
		}
		last = runs[len(runs)-1]
	}
}
