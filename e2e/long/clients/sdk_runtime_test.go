package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"steward/e2e/installation"
)

// TestRuntimeKeepsItsStateHere runs an application with the platform's runtime, which stores its
// threads over the socket, and reports its sessions and runs of evaluations.
func TestRuntimeKeepsItsStateHere(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	script, err := filepath.Abs("../../sdk/runtime.mjs")
	s.Must(err)
	fixture, err := json.Marshal(sdkFixture{Package: "@agentuity/server", URL: s.URL, Key: s.Key, Tag: "app"})
	s.Must(err)
	cmd := exec.CommandContext(t.Context(), bunPath(s), script)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "STEWARD_FIXTURE=" + string(fixture), "NODE_ENV=development",
		"AGENTUITY_SDK_KEY=" + s.KeyOf("prj_app").Key, "AGENTUITY_TRANSPORT_URL=" + s.URL + "/sdk",
		"AGENTUITY_CLOUD_ORG_ID=" + s.OrgID, "AGENTUITY_CLOUD_PROJECT_ID=prj_app", "AGENTUITY_CLOUD_DEPLOYMENT_ID=deploy_1",
		"AGENTUITY_OTLP_URL=http://127.0.0.1:9", // telemetry, which Steward does not take; nothing listens there
	}
	if stdout, stderr, code := finish(t, cmd); code != 0 {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}
