"""S3 and stores that speak its protocol, and DynamoDB for the commits of stores without conditional writes."""
