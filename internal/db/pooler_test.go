package db_test

import (
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// throughPooler are tests of this package that have to pass through a pooler of transactions. Others
// depend on what belongs to a session: notifications, plans, and what a lost connection reports.
var throughPooler = []string{
	"TestStatementsRunOnBothEngines", "TestBooleansAndBytesOnBothEngines", "TestSentStatementsRunInOrder", "TestJoinedWriteFailsAlone",
	"TestRulesHoldOnBothEngines", "TestRowsLeftOpenAreClosed", "TestConcurrentWritersFailAlone", "TestBulk.*", "TestCounters.*", "TestGather.*",
	"TestLimitsOfConnections", "TestSlowStatementIsUnavailable", "TestFrozenTransactionIsEnded", "TestJITIsOff", "TestReplicasMigrateAtOnce",
	"TestDeadlockIsRetried", "TestRetr.*", "TestScanReturnsWhatWasWritten", "TestSnapshot.*", "TestBumpCalls.*", "TestBumpReachesOtherReplicasByPoll",
}

// TestPgBouncerInTransactionMode runs tests of this package again, in another process.
func TestPgBouncerInTransactionMode(t *testing.T) {
	run := "^(" + strings.Join(throughPooler, "|") + ")$/^postgres$"
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", run, "-test.v", "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), "STEWARD_TEST_POOLER="+db.TransactionPooler)
	out, err := cmd.CombinedOutput()
	if passed := strings.Count(string(out), "\n--- PASS"); err != nil || passed < len(throughPooler) {
		t.Errorf("%d passed, %v:\n%s", passed, err, out)
	}
}

// TestPoolerIsRefusedUnlessItIsNamed connects through PgBouncer as if it were PostgreSQL.
func TestPoolerIsRefusedUnlessItIsNamed(t *testing.T) {
	for _, mode := range []string{db.TransactionPooler, db.SessionPooler} {
		t.Run(mode, func(t *testing.T) {
			o := db.Options{URL: dbtest.PgBouncer(t, dbtest.Postgres(t), mode)}
			_, opened := db.Open(t.Context(), o)
			_, inspected := db.Inspect(t.Context(), o, "k")
			for _, err := range []error{opened, inspected} {
				if err == nil || !strings.Contains(err.Error(), "--database-pooler") {
					t.Errorf("got %v", err)
				}
			}
			execute(t, o.URL+"&default_query_exec_mode=simple_protocol", "DO $$ BEGIN ASSERT current_setting('jit') = 'on'; END $$")
			o.Pooler = mode
			o.MaxConns = 4 // in session mode, the pool has eight
			d := open(t, o)
			must(t, d.Write(t.Context(), putting("a")))
			wantKeys(t, d, "a")
		})
	}
}

func TestServerThatCanBeWrittenIsFound(t *testing.T) {
	u, err := url.Parse(dbtest.NewServer(t).URL)
	must(t, err)
	u.Host = "127.0.0.1:1," + u.Host
	u.RawQuery = "target_session_attrs=read-write"
	d := open(t, db.Options{URL: u.String()})
	must(t, d.Write(t.Context(), putting("a")))
}
