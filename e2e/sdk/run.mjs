// Runs the scripts of some areas with one SDK, one after the other, since starting a runtime takes
// longer than most of them. It stops with a stack trace at the first unexpected result.
//
//   run.mjs AREA…
import { fixture } from './sdk.mjs';

for (const area of process.argv.slice(2)) {
	try {
		await import(`./${area}.mjs`);
	} catch (err) {
		console.error(`${area} with ${fixture.package}:`, err);
		process.exit(1);
	}
}
process.exit(0); // whatever the SDK still has open
