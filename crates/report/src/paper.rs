//! Pictures as files of their own, and how pictures look.

/// How pictures look, on the page and in a file of their own.
pub(crate) const PICTURES: &str = include_str!("page/picture.css");
/// The colours of a picture on white paper.
pub(crate) const PAPER: &str = include_str!("page/paper.css");

/// `svg` as a file, black on white.
pub(crate) fn standalone(svg: &str) -> String {
    svg.replacen(
        '>',
        &format!("><style>{PAPER}{PICTURES}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"),
        1,
    ) + "\n"
}
