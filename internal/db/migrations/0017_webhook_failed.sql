-- webhook_deliveries_failed_of lists the failed deliveries of a destination. It costs only what fails:
-- a delivery that is pending or has succeeded is not in it.
CREATE INDEX webhook_deliveries_failed_of ON webhook_deliveries (destination_id, key) WHERE failed;
