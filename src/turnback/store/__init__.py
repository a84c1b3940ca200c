"""PostgreSQL: the only room with SQL. Schema, one transactional DAO, the embedded server.

Every DAO call is a whole transaction and takes a principal. Rows go in and out as the core's
values; SQLSTATEs and constraint names leave as the errors of `turnback.core.errors`.
"""
