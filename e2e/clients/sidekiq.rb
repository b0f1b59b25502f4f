# Runs jobs with Sidekiq in a key-value store by REDIS_URL and REDIS_KEY_PREFIX: jobs that succeed, that are scheduled, and that fail
# and are tried again. It exits with 1 if a job is not done, or Sidekiq counts wrongly.
require "logger"
require "redis-namespace"
require "sidekiq"
require "sidekiq/api"
require "sidekiq/launcher"

namespace = ENV["REDIS_KEY_PREFIX"].to_s.delete_suffix(":") # redis-namespace adds the colon
options = { url: ENV.fetch("REDIS_URL"), size: 10 }
options[:namespace] = namespace unless namespace.empty?
Sidekiq.logger.level = Logger::FATAL
Redis.silence_deprecations = true # Sidekiq's calls are older than the gem redis
Sidekiq.configure_client { |config| config.redis = options }
Sidekiq.options.merge!(queues: %w[default mail], concurrency: 3, poll_interval_average: 1, timeout: 5)

RESULTS = Queue.new

# Add is a job that succeeds.
class Add
  include Sidekiq::Job
  sidekiq_options queue: "mail"

  def perform(a, b) = RESULTS << ["add", a + b]
end

# Flaky is a job that fails at first.
class Flaky
  include Sidekiq::Job
  FAILED = []

  def perform(name)
    raise "first attempt" if FAILED.empty? && FAILED << name

    RESULTS << ["flaky", name]
  end
end

def equal(got, want)
  abort "#{caller(1, 1).first}: got #{got.inspect}, want #{want.inspect}" unless got == want
end

def wait_for(what)
  2000.times { yield ? return : sleep(0.05) }
  abort "waited in vain: #{what}"
end

# next_result returns what the next job has done.
def next_result = Timeout.timeout(100) { RESULTS.pop }

equal(Sidekiq.redis_info["redis_version"].to_i, 7) if namespace.empty?
10.times { |i| Add.perform_async(i, i) }
Sidekiq::Client.push_bulk("class" => Add, "args" => (10...20).map { |i| [i, i] })
equal(Sidekiq::Queue.new("mail").size, 20)
equal(Sidekiq::Queue.new("mail").map { |job| job.args.first }.sort, (0...20).to_a)
Add.perform_in(3600, 0, 0)
Add.perform_in(0.2, 100, 1)
Flaky.perform_async("f")
equal(Sidekiq::ScheduledSet.new.size, 2)
equal(Sidekiq::ScheduledSet.new.scan("Add").count, 2)

launcher = Sidekiq::Launcher.new(Sidekiq.options.merge(fetch: Sidekiq::BasicFetch.new(Sidekiq.options)))
launcher.run
wait_for("the failed job to be listed") { Sidekiq::RetrySet.new.size == 1 }
equal(Sidekiq::RetrySet.new.first.item["error_message"], "first attempt")
Sidekiq::RetrySet.new.first.retry
results = Array.new(22) { next_result }
equal(results.sort, ((0...20).map { |i| ["add", 2 * i] } + [["add", 101], ["flaky", "f"]]).sort)
wait_for("the process to be listed") { Sidekiq::ProcessSet.new.size == 1 }
launcher.stop

wait_for("the counts") do
  Sidekiq::Launcher.flush_stats
  Sidekiq::Stats.new.processed == 23
end
stats = Sidekiq::Stats.new
equal([stats.processed, stats.failed, stats.enqueued, stats.scheduled_size, stats.retry_size], [23, 1, 0, 1, 0])
job = Sidekiq::ScheduledSet.new.first
equal([job.klass, job.args], ["Add", [0, 0]])
equal(Sidekiq::ScheduledSet.new.find_job(job.jid).delete, true)
equal(Sidekiq::ScheduledSet.new.size, 0)
